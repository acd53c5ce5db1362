package x

import "time"

var acted = time.Now()
