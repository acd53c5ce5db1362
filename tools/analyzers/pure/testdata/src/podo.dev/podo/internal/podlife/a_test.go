package podlife

import "time"

var start = time.Now()
