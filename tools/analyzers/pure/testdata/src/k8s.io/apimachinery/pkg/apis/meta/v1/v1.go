package v1

type Time struct{}

func Now() Time { return Time{} }

func Unix() Time { return Time{} }
