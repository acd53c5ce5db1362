// Package legacytokens takes away tokens in Secrets that were made with their ServiceAccounts, as clusters once did, and that nobody uses
// any more. Such a token has no end of its own:
//
//	used within the period ─┬─► unused for the period: marked (invalid-since), and refused ─┬─► the Secret is deleted after one more period
//	                        └─ a pod mounts it, or nobody knows who made it: it stays       └─ the mark is taken off, or it is used: it stays
//
// When it was last used, the authenticator notes in a label, once a day. Since when it does, a ConfigMap tells.
package legacytokens

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Labels and names are upstream's.
const (
	LastUsed     = "kubernetes.io/legacy-token-last-used"
	InvalidSince = "kubernetes.io/legacy-token-invalid-since"

	// Tracking is the ConfigMap of kube-system that tells since when uses are noted.
	Tracking = "kube-apiserver-legacy-service-account-token-tracking"
	since    = "since"
)

// Verdict is what is to be done with a Secret.
type Verdict int

// What a Verdict can be.
const (
	Keep Verdict = iota
	Mark
	Remove
)

// Tracked says whether uses have been noted for a whole period. A day that cannot be read has none.
func Tracked(c *v1.ConfigMap, now time.Time, period time.Duration) bool {
	day, err := time.Parse(time.DateOnly, c.Data[since])
	return err == nil && !now.Before(day.AddDate(0, 0, 1).Add(period))
}

// Judge says what is to be done with a Secret of the account, nil when there is none. mounted says whether a pod uses it. Uses must have
// been noted for the whole period.
func Judge(s *v1.Secret, account *v1.ServiceAccount, now time.Time, period time.Duration, mounted func() bool) Verdict {
	limit := now.Add(-period)
	day := limit.UTC().Format(time.DateOnly)
	if s.Type != v1.SecretTypeServiceAccountToken || s.DeletionTimestamp != nil || !s.CreationTimestamp.Time.Before(limit) {
		return Keep
	}
	if last, noted := s.Labels[LastUsed]; noted && (!isDay(last) || last >= day) {
		return Keep
	}
	if !madeWith(s, account) || mounted() {
		return Keep
	}
	invalid := s.Labels[InvalidSince]
	switch {
	case !isDay(invalid):
		return Mark
	case invalid >= day:
		return Keep
	}
	return Remove
}

func isDay(text string) bool {
	_, err := time.Parse(time.DateOnly, text)
	return err == nil
}

// madeWith says that the account lists the Secret, as those do whose Secrets were made with them. Others were made by somebody, who alone
// may take them away.
func madeWith(s *v1.Secret, account *v1.ServiceAccount) bool {
	if account == nil || s.Annotations[v1.ServiceAccountNameKey] != account.Name {
		return false
	}
	if uid := s.Annotations[v1.ServiceAccountUIDKey]; uid != "" && uid != string(account.UID) {
		return false
	}
	return slices.ContainsFunc(account.Secrets, func(r v1.ObjectReference) bool { return r.Name == s.Name })
}
