package x

import "time"

var planned = time.Now() // want `pure code must not call time.Now`
