package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// history is one line of what the simulation exports: test/simulation/export/exported.ts describes each field.
// All times are true times in µs.
type history struct {
	Store  string  `json:"store"`
	Seed   string  `json:"seed"`
	Damage string  `json:"damage"`
	Pauses []pause `json:"pauses"`
	Keys   []key   `json:"keys"`
}

type pause struct {
	Process string `json:"process"`
	Kind    string `json:"kind"`
	From    int64  `json:"from"`
	To      int64  `json:"to"`
}

type key struct {
	Key    string   `json:"key"`
	Broken []string `json:"broken"`
	Holds  []hold   `json:"holds"`
	Losses []loss   `json:"losses"`
	// FencedUntil: from then on the store may grant any tokens. 0: never.
	FencedUntil int64 `json:"fencedUntil"`
}

type hold struct {
	Call    string     `json:"call"`
	Process string     `json:"process"`
	Owner   string     `json:"owner"`
	Claim   string     `json:"claim"`
	Weight  int        `json:"weight"`
	Permits int        `json:"permits"`
	Token   int64      `json:"token"`
	Asked   int64      `json:"asked"`
	From    int64      `json:"from"`
	Ended   int64      `json:"ended"`
	Samples [][2]int64 `json:"samples"`
	// stay is the index of its owner.
	stay int
}

type loss struct {
	Kind          string    `json:"kind"`
	From          int64     `json:"from"`
	To            int64     `json:"to"`
	Owner         string    `json:"owner"`
	By            [2]string `json:"by"`
	ForgetsTokens bool      `json:"forgetsTokens"`
}

// readHistories calls each with one history after the other.
func readHistories(from io.Reader, each func(history)) error {
	lines := bufio.NewReaderSize(from, 1<<20)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err != nil && err != io.EOF {
			return err
		}
		var read history
		if err := json.Unmarshal(line, &read); err != nil {
			return fmt.Errorf("line %d is no history: %w", number, err)
		}
		for _, k := range read.Keys {
			nameStays(k.Holds)
		}
		each(read)
	}
}

// nameStays gives the holds of each owner the index of the first of them.
func nameStays(holds []hold) {
	ofOwner := map[string]int{}
	for i := range holds {
		first, isKnown := ofOwner[holds[i].Owner]
		if !isKnown || holds[i].Owner == "" {
			first = i
			ofOwner[holds[i].Owner] = i
		}
		holds[i].stay = first
	}
}

// span is a time, both ends included.
type span struct{ from, to int64 }

// beliefs returns when the holder ran and believed in its lock. What it was told at one moment is true until it runs
// out, or until it is told something else. After a sleep of its machine, or a clock that was set, nothing is known
// before the next time it was asked.
func (h hold) beliefs(pauses []pause) []span {
	var spans []span
	for i, sample := range h.Samples {
		at, until := sample[0], sample[1]
		if until == 0 || at > h.Ended {
			continue
		}
		until = min(until, h.Ended)
		if i+1 < len(h.Samples) {
			until = min(until, h.Samples[i+1][0])
		}
		for _, p := range pauses {
			isBreak := p.Kind == "suspend" || p.Kind == "clock" || p.Kind == "rate"
			if isBreak && p.Process == h.Process && p.From >= at {
				until = min(until, p.From)
			}
		}
		if !isHidden(at, h.Process, pauses) {
			spans = append(spans, span{at, at})
		}
		spans = append(spans, running(span{at, max(at, until)}, h.Process, pauses)...)
	}
	return spans
}

// isHidden says whether the machine of a process has just slept, and its clocks do not show that.
func isHidden(at int64, process string, pauses []pause) bool {
	for _, p := range pauses {
		if p.Kind == "hidden" && p.Process == process && p.From <= at && at <= p.To {
			return true
		}
	}
	return false
}

// running returns the parts of a span in which the process ran.
func running(whole span, process string, pauses []pause) []span {
	parts := []span{whole}
	for _, p := range pauses {
		isStop := p.Kind == "stop" || p.Kind == "suspend" || p.Kind == "block" || p.Kind == "hidden"
		if !isStop || p.Process != process {
			continue
		}
		var left []span
		for _, part := range parts {
			if p.To <= part.from || p.From >= part.to {
				left = append(left, part)
				continue
			}
			if p.From > part.from {
				left = append(left, span{part.from, p.From})
			}
			if p.To < part.to {
				left = append(left, span{p.To, part.to})
			}
		}
		parts = left
	}
	return parts
}

// moments returns the ends of all spans, in order, each once. Who had the lock at two moments, and never acquired it
// again, had it between them. Until the first gap, if untilGap.
func moments(spans []span, untilGap bool) []int64 {
	var all []int64
	for _, s := range spans {
		if untilGap && len(all) > 0 && s.from > all[len(all)-1] {
			break
		}
		for _, at := range []int64{s.from, s.to} {
			if len(all) == 0 || at > all[len(all)-1] {
				all = append(all, at)
			}
		}
	}
	return all
}

func min(a, b int64) int64 {
	if a < b {
		return a
	}
	return b
}

func max(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}
