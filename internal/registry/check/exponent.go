package check

// hugeExponent is how many digits of an exponent are too many: what is computed with 1e99999 is quick, with 1e999999999 it never ends.
const hugeExponent = 5

// Tame returns data with every number that has a huge exponent made unreadable ("1e999999999" is then "1x999999999"), or nil when there
// is none. A quantity may have any exponent by its syntax, and reading or comparing one takes time and memory of that power of ten. So
// whoever decodes what a client sent decodes the tamed form first: where that fails, a quantity has such an exponent; where it does not,
// the number is but a text, and data itself can be read.
func Tame(data []byte) (tame []byte) {
	digit := false
	for i := 0; i < len(data); {
		c, n := data[i], 1 // every body passes here: escapes are looked at apart
		if c == '\\' {
			c, n = character(data[i:])
		}
		if digit && c|0x20 == 'e' && huge(data[i+n:]) {
			if tame == nil {
				tame = append([]byte(nil), data...)
			}
			if n == 1 {
				tame[i] = 'x'
			} else {
				copy(tame[i:], `\u0078`)
			}
		}
		digit = c-'0' < 10 || c == '.'
		i += n
	}
	return tame
}

// huge says that an exponent starts here, with too many digits.
func huge(data []byte) bool {
	c, n := character(data)
	if c == '+' || c == '-' {
		data = data[n:]
	}
	digits := 0
	for {
		c, n = character(data)
		switch {
		case c < '0' || c > '9':
			return false
		case c != '0' || digits > 0:
			if digits++; digits == hugeExponent {
				return true
			}
		}
		data = data[n:]
	}
}

// character is the next one and how long it is; JSON may write it as an escape.
func character(data []byte) (c byte, n int) {
	if len(data) == 0 {
		return 0, 0
	}
	if data[0] != '\\' || len(data) < 6 || string(data[1:4]) != "u00" {
		return data[0], 1
	}
	high, low := hex(data[4]), hex(data[5])
	if high > 7 || low > 15 {
		return data[0], 1
	}
	return high<<4 | low, 6
}

func hex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}
