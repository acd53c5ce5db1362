package podlife

import (
	_ "crypto/rand" // want `pure code must not import crypto/rand: take what is random as an argument`
	"math/rand"
	"net"
	"net/netip"
	clock "time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type later struct{ clock.Time }

func (l later) Now() clock.Time { return l.Time }

func decide(now clock.Time) clock.Duration {
	_ = clock.Now()  // want `pure code must not call time.Now: take now as an argument`
	f := clock.Since // want `pure code must not call time.Since`
	_ = f
	clock.Sleep(1)                       // want `pure code must not call time.Sleep`
	go rand.New(rand.NewSource(1)).Int() // want `pure code must not start a goroutine`
	_ = rand.Int()                       // want `pure code must not call rand.Int: take a generator as an argument`
	_ = metav1.Now()                     // want `pure code must not call metav1.Now`
	_, _ = net.Dial("", "")              // want `pure code must not use net.Dial: of package net it may parse addresses only`
	_, _ = metav1.Unix(), net.ParseIP("::1")
	_, _ = netip.ParseAddr("::1")
	return now.Add(clock.Second).Sub(later{now}.Now())
}
