package main

import "github.com/anishathalye/porcupine"

// rules says what is judged otherwise, to explain a difference between the two judges.
type rules struct {
	// withoutLosses: no owner loses its lock, so that each holder that believes in it must have it.
	withoutLosses bool
	// alwaysFenced: tokens are compared also after servers with a clock that is behind have lost data.
	alwaysFenced bool
	// fromGrant: a holder writes when it is let in, also if it does not believe in its lock any more.
	fromGrant bool
	// permitsInOrder: permits are granted in the order of their tokens.
	permitsInOrder bool
	// permitsReturn: who stops believing in a permit for a while need not have one afterwards.
	permitsReturn bool
}

// operationsOf turns what happened to one key into operations, each with the interval in which it took effect.
func operationsOf(k key, pauses []pause, other rules) []porcupine.Operation {
	var operations []porcupine.Operation
	add := func(op operation, from, to int64) {
		operations = append(operations, porcupine.Operation{Input: op, Call: from, Return: to})
	}
	believed := make([][]int64, len(k.Holds))
	for i, h := range k.Holds {
		believed[i] = moments(h.beliefs(pauses), other.permitsReturn && h.Claim == "permits")
		if other.fromGrant && len(believed[i]) == 0 {
			believed[i] = []int64{h.From}
		}
	}
	losers := map[int]bool{}
	for _, l := range k.Losses {
		if other.withoutLosses {
			break
		}
		for i, h := range k.Holds {
			if h.stay == i && mayLose(l, i, k.Holds, believed) {
				losers[i] = true
				add(operation{kind: lose, stay: i}, l.From, l.To)
			}
		}
		if l.ForgetsTokens {
			add(operation{kind: forget}, l.From, l.To)
		}
	}
	for i, h := range k.Holds {
		last := len(believed[i]) - 1
		// It has the lock at this very moment. To have got it earlier would only keep it from others.
		enters := last >= 0 && believed[i][0] == h.From && h.Claim != "permits" && !losers[h.stay]
		if !enters {
			op := operation{kind: acquire, hold: i, stay: h.stay, isLast: last < 0, isChecked: other.permitsInOrder}
			add(op, h.Asked, h.From)
		}
		// Its lock may have been over when it was let in while a sleep of its machine was hidden from it.
		mayBeOver := isHidden(h.From, h.Process, pauses)
		for j, at := range believed[i] {
			isChecked := !mayBeOver && (k.FencedUntil == 0 || at < k.FencedUntil || other.alwaysFenced)
			op := operation{kind: believe, hold: i, stay: h.stay, isLast: j == last, isChecked: isChecked}
			if enters && j == 0 {
				op.kind = enter
			}
			add(op, at, at)
		}
	}
	return operations
}

// mayLose says whether a loss may be that of a stay, and matters: one of its callers still believed in the lock.
func mayLose(l loss, stay int, holds []hold, believed [][]int64) bool {
	matters := false
	for i, h := range holds {
		if h.stay != stay {
			continue
		}
		if l.Owner != "" && l.Owner != h.Owner || l.By == [2]string{h.Process, h.Call} {
			return false
		}
		last := len(believed[i]) - 1
		matters = matters || last >= 0 && believed[i][last] >= l.From && h.Asked <= l.To
	}
	return matters
}
