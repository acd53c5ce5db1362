package deep

import "time"

var tick = time.Tick(1) // want `pure code must not call time.Tick`
