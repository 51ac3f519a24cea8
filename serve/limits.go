// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/wepe-go/wepe/data"
)

// What one address may hold, and whose turn it is at the decoders. Sizes are limited where they are known: bodies in
// upload.read, pixels by the header of an image in upload.decode (read.go).

// share divides a resource among remote addresses. An address may hold as much as is free for the others: alone a
// half, beside one other such address a third each. The others always find something.
type share struct {
	mu   sync.Mutex
	free int64
	held map[netip.Prefix]int64
}

func newShare(n int64) *share { return &share{free: n, held: map[netip.Prefix]int64{}} }

// take reports whether the address now has n more.
func (s *share) take(of netip.Prefix, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[of]+n > s.free-(n-1) {
		return false
	}
	s.free -= n
	s.held[of] += n
	return true
}

func (s *share) give(of netip.Prefix, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += n
	if s.held[of] -= n; s.held[of] == 0 {
		delete(s.held, of)
	}
}

// sender is the remote address of a connection; of IPv6 the network, because a client may have all of its addresses.
func sender(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{} // of a test, or of a socket that is no network's
	}
	bits := 64
	if at.Addr().Unmap().Is4() {
		bits = 32
	}
	of, _ := at.Addr().Unmap().WithZone("").Prefix(bits) // bits are valid
	return of
}

// limited is a listener that closes connections beyond an address' share.
type limited struct {
	net.Listener
	connections *share
}

func (l limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if of := sender(c.RemoteAddr().String()); l.connections.take(of, 1) {
			return &counted{Conn: c, release: sync.OnceFunc(func() { l.connections.give(of, 1) })}, nil
		}
		_ = c.Close()
	}
}

type counted struct {
	net.Conn
	release func()
}

func (c *counted) Close() error {
	c.release()
	return c.Conn.Close()
}

const smallPixels = 1 << 20 // of an image that has a turn beside large ones

// decoders is the number of images decoded at once, and of large ones among them.
func decoders() (all, large int) {
	all = max(2, runtime.GOMAXPROCS(0))
	return all, all / 2
}

// decodeBytes bounds the memory of all decoders, for images of at most so many pixels.
func decodeBytes(pixels int64) int64 {
	all, large := decoders()
	return data.DecodeBytes * (int64(large)*pixels + int64(all-large)*min(pixels, smallPixels))
}

// turns bounds the images that are decoded at once. At least half of the decoders take no large image, so that small
// ones find a turn beside any number of large ones.
type turns struct{ all, large *semaphore.Weighted }

func newTurns() turns {
	all, large := decoders()
	return turns{semaphore.NewWeighted(int64(all)), semaphore.NewWeighted(int64(large))}
}

// wait waits for a turn, which end ends.
func (t turns) wait(ctx context.Context, pixels int64) (end func(), err error) {
	if pixels > smallPixels { // before it holds back small ones
		return acquire(ctx, t.large, t.all)
	}
	return acquire(ctx, t.all)
}

// acquire takes one of each semaphore, in their order.
func acquire(ctx context.Context, all ...*semaphore.Weighted) (release func(), err error) {
	for i, s := range all {
		if err := s.Acquire(ctx, 1); err != nil {
			for _, held := range all[:i] {
				held.Release(1)
			}
			return nil, err
		}
	}
	return func() {
		for _, s := range all {
			s.Release(1)
		}
	}, nil
}
