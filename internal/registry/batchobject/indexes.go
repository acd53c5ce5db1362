package batchobject

import (
	"fmt"
	"strconv"
	"strings"
)

// interval is a range of indexes, both ends included.
type interval struct{ first, last int32 }

// intervals reads a set of indexes below completions as users and statuses write it: "1,3-5,7", in growing order.
func intervals(text string, completions int32) ([]interval, error) {
	if text == "" {
		return nil, nil
	}
	var out []interval
	for part := range strings.SplitSeq(text, ",") {
		i, err := parseInterval(part, completions)
		if err != nil {
			return nil, err
		}
		if n := len(out); n > 0 && out[n-1].last >= i.first {
			return nil, fmt.Errorf("non-increasing order, previous: %d, current: %d", out[n-1].last, i.first)
		}
		out = append(out, i)
	}
	return out, nil
}

func parseInterval(text string, completions int32) (interval, error) {
	ends := strings.Split(text, "-")
	if len(ends) > 2 {
		return interval{}, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", text)
	}
	var n [2]int
	for i, end := range ends {
		var err error
		if n[i], err = strconv.Atoi(end); err != nil {
			return interval{}, fmt.Errorf("cannot convert string to integer for index: %q", end)
		}
		if n[i] >= int(completions) {
			return interval{}, fmt.Errorf("too large index: %q", end)
		}
	}
	if len(ends) == 1 {
		n[1] = n[0]
	} else if n[0] >= n[1] {
		return interval{}, fmt.Errorf("non-increasing order, previous: %d, current: %d", n[0], n[1])
	}
	return interval{int32(n[0]), int32(n[1])}, nil
}

// overlap finds the first index that is in both sets; parts that cannot be read are in none.
func overlap(a, b string, completions int32) (int32, bool) {
	readable := func(text string) (out []interval) {
		for part := range strings.SplitSeq(text, ",") {
			if i, err := parseInterval(part, completions); err == nil {
				out = append(out, i)
			}
		}
		return out
	}
	x, y := readable(a), readable(b)
	for len(x) > 0 && len(y) > 0 {
		if x[0].first <= y[0].last && y[0].first <= x[0].last {
			return max(x[0].first, y[0].first), true
		}
		if x[0].first <= y[0].first {
			x = x[1:]
		} else {
			y = y[1:]
		}
	}
	return 0, false
}
