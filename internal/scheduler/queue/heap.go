package queue

import (
	"cmp"
	"slices"
)

type itemHeap struct {
	items []*Item
	less  func(a, b *Item) bool
}

func (h *itemHeap) Len() int           { return len(h.items) }
func (h *itemHeap) Less(i, j int) bool { return h.less(h.items[i], h.items[j]) }
func (h *itemHeap) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.items[i].index, h.items[j].index = i, j
}

func (h *itemHeap) Push(x any) {
	i := x.(*Item)
	i.index = len(h.items)
	h.items = append(h.items, i)
}

func (h *itemHeap) Pop() any {
	last := len(h.items) - 1
	i := h.items[last]
	h.items[last] = nil
	h.items = h.items[:last]
	i.index = -1
	return i
}

func sortItems(items []*Item) {
	slices.SortFunc(items, func(a, b *Item) int { return cmp.Compare(a.seq, b.seq) })
}
