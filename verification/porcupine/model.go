package main

import (
	"fmt"
	"sort"
	"strings"

	"github.com/anishathalye/porcupine"
)

// kind is what an operation does to a lock.
type kind int

const (
	// acquire: the store grants the lock to a hold, some time after its owner asked and before its caller was let in.
	acquire kind = iota
	// enter: an acquire and the first believe at one moment. Of many that enter at once there are fewer orders to try.
	enter
	// believe: at this very moment the holder believes in its lock, and writes to a fenced register with its token.
	believe
	// lose: the lock is taken from its owner, who need not know it.
	lose
	// forget: the servers have forgotten the tokens that they granted.
	forget
)

// operation is the input of one operation of the model. None has an output: each must be possible as it is.
type operation struct {
	kind kind
	// hold is an index of the holds of the key. A lose has none.
	hold int
	// stay is the index of an owner. Callers of one process hand a lock on to each other, and lose it together.
	stay int
	// isLast: it never believes again. Its lock may end right after, by its release or its lease.
	isLast bool
	// isChecked: its token may not be smaller than those before it.
	isChecked bool
}

// set has indexes, in order. It is a string, so that two states can be compared.
type set string

func (s set) has(i int) bool { return strings.ContainsRune(string(s), rune(i)) }

func (s set) with(i int) set {
	if s.has(i) {
		return s
	}
	runes := append([]rune(s), rune(i))
	sort.Slice(runes, func(a, b int) bool { return runes[a] < runes[b] })
	return set(runes)
}

func (s set) without(i int) set { return set(strings.ReplaceAll(string(s), string(rune(i)), "")) }

// none is the index of no hold.
const none = -1

// state is that of a lock and of the register that it guards.
type state struct {
	// holders have the lock.
	holders set
	// idle holders of permits believe in them no more, and may hand them on to a caller of the same stay.
	idle set
	// lost has the stays from which the lock was taken.
	lost set
	// writer and reader have the largest tokens that the register has accepted, reader also those of permits.
	writer, reader int
	// permit has the largest token of the permits that were granted one after the other.
	permit int
}

// modelOf is a lock with readers and permits, in front of a fenced register.
func modelOf(holds []hold) porcupine.Model {
	l := lock{holds}
	return porcupine.Model{
		Init: func() interface{} { return state{writer: none, reader: none, permit: none} },
		Step: func(before, input, _ interface{}) (bool, interface{}) {
			return l.step(before.(state), input.(operation))
		},
	}
}

type lock struct{ holds []hold }

func (l lock) step(s state, op operation) (bool, state) {
	switch op.kind {
	case acquire:
		return l.acquire(s, op)
	case believe:
		return l.believe(s, op)
	case enter:
		granted := op
		granted.isLast = false
		isGranted, after := l.acquire(s, granted)
		if !isGranted {
			return false, s
		}
		return l.believe(after, op)
	case lose:
		s.lost = s.lost.with(op.stay)
		for _, i := range s.holders + s.idle {
			if l.holds[i].stay == op.stay {
				s.holders, s.idle = s.holders.without(int(i)), s.idle.without(int(i))
			}
		}
		return true, s
	case forget:
		s.writer, s.reader, s.permit = none, none, none
		return true, s
	}
	panic(fmt.Sprintf("no operation is of kind %d", op.kind))
}

func (l lock) acquire(s state, op operation) (bool, state) {
	if s.lost.has(op.stay) {
		return true, s
	}
	h := l.holds[op.hold]
	if h.Claim == "permits" && op.isChecked {
		if l.isStale(op.hold, s.permit) {
			return false, s
		}
		s.permit = op.hold
	}
	for _, i := range s.idle {
		if l.holds[i].stay == op.stay && l.holds[i].Weight >= h.Weight {
			s.idle = s.idle.without(int(i))
			return true, s.grantedTo(op)
		}
	}
	inUse, idle := h.Weight, 0
	for _, i := range s.holders {
		other := l.holds[i]
		switch {
		case h.Claim == "permits" && other.Claim == "permits":
			inUse += other.Weight
		case h.Claim != "shared" || other.Claim != "shared":
			return false, s
		}
	}
	for _, i := range s.idle {
		idle += l.holds[i].Weight
	}
	if h.Claim != "permits" || inUse+idle > h.Permits {
		s.idle = ""
	}
	return h.Claim != "permits" || inUse <= h.Permits, s.grantedTo(op)
}

// grantedTo notes the grant. Who never believes in its lock has it for no time.
func (s state) grantedTo(op operation) state {
	if !op.isLast {
		s.holders = s.holders.with(op.hold)
	}
	return s
}

func (l lock) believe(s state, op operation) (bool, state) {
	if s.lost.has(op.stay) {
		return true, s
	}
	if !s.holders.has(op.hold) {
		return false, s
	}
	claim := l.holds[op.hold].Claim
	if op.isLast {
		s.holders = s.holders.without(op.hold)
		if claim == "permits" {
			s.idle = s.idle.with(op.hold)
		}
	}
	if l.isStale(op.hold, s.writer) || claim == "exclusive" && l.isStale(op.hold, s.reader) {
		return !op.isChecked, s
	}
	if claim == "exclusive" {
		s.writer = op.hold
	} else if s.reader == none || l.holds[op.hold].Token > l.holds[s.reader].Token {
		s.reader = op.hold
	}
	return true, s
}

// isStale says whether the register rejects the token of a hold: it has seen a larger one, or this one of another call.
func (l lock) isStale(i, seen int) bool {
	if seen == none || i == seen {
		return false
	}
	h, other := l.holds[i], l.holds[seen]
	return other.Token > h.Token || other.Token == h.Token && !goesOn(h, other)
}

// goesOn says whether a hold is what is left of another: the call was downgraded, or a nested call goes on with its lock.
func goesOn(h, other hold) bool {
	return h.Process == other.Process && (h.Call == other.Call || strings.HasPrefix(h.Call, other.Call+"."))
}
