// Porcupine judges the histories of the simulation, and is compared with the simulation's own checker. README.md says how.
package main

import (
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// patience is how long Porcupine may think about one key.
const patience = 20 * time.Second

func main() {
	total := report{}
	for _, path := range os.Args[1:] {
		file, err := os.Open(path)
		if err == nil {
			err = readHistories(file, total.add)
			file.Close()
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			os.Exit(2)
		}
	}
	if !total.print() {
		os.Exit(1)
	}
}

// verdict is what comes of comparing both judges.
type verdict string

const (
	bothGood   verdict = "good for both"
	bothBroken verdict = "broken for both"
	undecided  verdict = "UNDECIDED"
	onlyHere   verdict = "BROKEN FOR PORCUPINE ALONE"
	onlyThere  verdict = "BROKEN FOR THE CHECKER ALONE"
)

// explanation is a rule under which the other judge says the same. README.md says why each is no mistake of either.
type explanation struct {
	verdict verdict
	other   rules
}

// explanations of what the checker alone finds, and of what Porcupine alone finds.
var (
	ofChecker = []explanation{
		{"explained: believed for too long in a lock that was taken", rules{withoutLosses: true}},
		{"explained: a token after a loss on servers whose clock is behind", rules{alwaysFenced: true}},
		{"explained: the token of a holder that never believed", rules{fromGrant: true}},
		{"explained: permits in the order of their tokens", rules{permitsInOrder: true}},
	}
	ofPorcupine = []explanation{
		{"explained: a permit that its holder believes in again", rules{permitsReturn: true}},
	}
)

// compare judges one key.
func compare(k key, pauses []pause) verdict {
	isBroken := len(k.Broken) > 0
	here := judge(k, pauses, rules{})
	switch {
	case here == porcupine.Unknown:
		return undecided
	case here == porcupine.Illegal && isBroken:
		return bothBroken
	case here == porcupine.Ok && !isBroken:
		return bothGood
	case isBroken && isOnlyPermitTokens(k):
		return "explained: tokens of permits"
	case isBroken:
		return explained(k, pauses, ofChecker, porcupine.Illegal, onlyThere)
	}
	return explained(k, pauses, ofPorcupine, porcupine.Ok, onlyHere)
}

// explained returns the first explanation under which Porcupine says what the checker says.
func explained(k key, pauses []pause, by []explanation, as porcupine.CheckResult, otherwise verdict) verdict {
	for _, each := range by {
		if judge(k, pauses, each.other) == as {
			return each.verdict
		}
	}
	return otherwise
}

func judge(k key, pauses []pause, other rules) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(modelOf(k.Holds), operationsOf(k, pauses, other), patience)
}

func isOnlyPermitTokens(k key) bool {
	hasPermits := false
	for _, h := range k.Holds {
		hasPermits = hasPermits || h.Claim == "permits"
	}
	return hasPermits && len(k.Broken) == 1 && k.Broken[0] == "tokens"
}

// report counts histories and verdicts, for each store and for each kind of damage.
type report map[string]map[verdict]int

// histories is the line of a group that counts them.
const histories verdict = "histories"

func (r report) add(h history) {
	group := h.Store
	if h.Damage != "" {
		group = "damaged: " + h.Damage
	}
	if r[group] == nil {
		r[group] = map[verdict]int{}
	}
	r[group][histories]++
	for _, k := range h.Keys {
		v := compare(k, h.Pauses)
		r[group][v]++
		if v == onlyHere || v == onlyThere || v == undecided {
			fmt.Printf("%s, seed %s, %s %s: %s; the checker: %v\n", h.Store, h.Seed, k.Key, h.Damage, v, k.Broken)
		}
	}
}

// print says whether both judges agree on everything, and there was something to judge.
func (r report) print() bool {
	isGood := len(r) > 0
	for _, group := range sorted(r) {
		counts := r[group]
		isGood = isGood && counts[onlyHere]+counts[onlyThere]+counts[undecided] == 0
		fmt.Printf("%s: %d histories\n", group, counts[histories])
		delete(counts, histories)
		for _, v := range sorted(counts) {
			fmt.Printf("%9d keys %s\n", counts[v], v)
		}
	}
	return isGood
}

// sorted returns the names of a map in order.
func sorted[Name ~string, Value any](of map[Name]Value) []Name {
	names := make([]Name, 0, len(of))
	for name := range of {
		names = append(names, name)
	}
	sort.Slice(names, func(a, b int) bool { return names[a] < names[b] })
	return names
}
