package job

import (
	"sort"
	"strconv"
	"strings"
)

// span is a range of indexes, both ends included.
type span struct{ first, last int }

// indexes is a set of indexes: spans in growing order that do not touch.
type indexes []span

// parseIndexes reads a set as statuses have it ("1,3-5,7"). What cannot be read and what is not below limit, which may be lower than it
// was when the text was written, is left out.
func parseIndexes(text string, limit int) (out indexes) {
	for part := range strings.SplitSeq(text, ",") {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		first, err := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err == nil && err2 == nil && first >= 0 && first < limit {
			out = out.merge(indexes{{first, min(last, limit-1)}})
		}
	}
	return out
}

// String is the form of statuses: three and more in a row are a range.
func (x indexes) String() string {
	var b strings.Builder
	for _, s := range x {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(s.first))
		switch {
		case s.last == s.first+1:
			b.WriteByte(',')
		case s.last > s.first:
			b.WriteByte('-')
		default:
			continue
		}
		b.WriteString(strconv.Itoa(s.last))
	}
	return b.String()
}

func (x indexes) total() (n int) {
	for _, s := range x {
		n += s.last - s.first + 1
	}
	return n
}

func (x indexes) has(i int) bool {
	at := sort.Search(len(x), func(k int) bool { return x[k].last >= i })
	return at < len(x) && x[at].first <= i
}

// with adds indexes, in any order.
func (x indexes) with(more ...int) indexes {
	sort.Ints(more)
	y := make(indexes, len(more))
	for k, i := range more {
		y[k] = span{i, i}
	}
	return x.merge(y)
}

// merge is the union of two sets.
func (x indexes) merge(y indexes) (out indexes) {
	for len(x)+len(y) > 0 {
		if len(x) == 0 || len(y) > 0 && y[0].first < x[0].first {
			x, y = y, x
		}
		next := x[0]
		x = x[1:]
		if n := len(out); n > 0 && next.first <= out[n-1].last+1 {
			out[n-1].last = max(out[n-1].last, next.last)
		} else {
			out = append(out, next)
		}
	}
	return out
}

// common is how many indexes are in both sets.
func (x indexes) common(y indexes) (n int) {
	for len(x) > 0 && len(y) > 0 {
		n += max(0, min(x[0].last, y[0].last)-max(x[0].first, y[0].first)+1)
		if x[0].last > y[0].last {
			x, y = y, x
		}
		x = x[1:]
	}
	return n
}

// missing are the first n indexes below limit that are not in the set.
func (x indexes) missing(n, limit int) (out []int) {
	i := 0
	for _, s := range append(x[:len(x):len(x)], span{limit, limit}) {
		for ; i < min(s.first, limit) && len(out) < n; i++ {
			out = append(out, i)
		}
		i = max(i, s.last+1)
	}
	return out
}
