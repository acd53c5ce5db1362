// Package oracle compares Podo's pure packages with upstream's own code. Upstream is a test tool here: nothing of the product
// links it.
//
//	manifest ─► mutate ─┬─► podo's rules ────► Outcome ─┐
//	                    └─► upstream's rules ► Outcome ─┴─► differences ─► shrink ─► one line per kind of difference
//
// A case is an object of a served kind, made from the corpus by a few random changes under a seed. What both sides do with it
// (default, validate, drop, accept or refuse, in which words) must be the same. A difference fails the test with the smallest
// object found that still shows it, or is listed in decisions.go with the reason for which it stays.
package oracle
