package shell

import "time"

var now = time.Now()
