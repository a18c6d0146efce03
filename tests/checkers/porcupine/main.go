// Judge of linearizability: a history on standard input, one verdict on standard output.
//
// A history is JSON lines, one finished operation each (see operations.py beside this folder):
//
//	{"process":3,"key":"k1","f":"write","call":17,"return":29,"outcome":"ok","in":{"value":"3-1"},"out":{}}
//
// The verdict is one JSON line and an exit code: valid 0, invalid 1, unknown 2. What cannot be read, or is not decided
// in time, is unknown. Operations that certainly did nothing ("fail") are left out; what may still take effect
// ("unknown") never returns.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const lineBytesMax = 1 << 20

// An operation as it was recorded; the models read its arguments and its answer.
type operation struct {
	Process int             `json:"process"`
	Key     string          `json:"key"`
	F       string          `json:"f"`
	Call    int64           `json:"call"`
	Return  *int64          `json:"return"`
	Outcome string          `json:"outcome"`
	In      json.RawMessage `json:"in"`
	Out     json.RawMessage `json:"out"`
}

type verdict struct {
	Verdict  string   `json:"verdict"`
	Checked  int      `json:"checked"`
	Keys     int      `json:"keys"`
	Reason   string   `json:"reason,omitempty"`
	Evidence []string `json:"evidence,omitempty"`
}

// A model of one key: what it is at first, and whether an operation fits a state.
type model struct {
	// parse makes the input and the output that step gets. Output is nil when the outcome is not known.
	parse func(op operation) (input any, output any, err error)
	model porcupine.Model
}

func models() map[string]model {
	return map[string]model{"register": registerModel(), "controller": controllerModel()}
}

func main() {
	name := flag.String("model", "register", "register or controller")
	seconds := flag.Float64("seconds", 60, "time for all keys together")
	flag.Parse()
	chosen, known := models()[*name]
	if !known {
		finish(verdict{Verdict: "unknown", Reason: "no model " + *name})
	}
	byKey, count, err := read(os.Stdin, chosen)
	if err != nil {
		finish(verdict{Verdict: "unknown", Reason: err.Error()})
	}
	result := check(chosen, byKey, time.Now().Add(time.Duration(*seconds*float64(time.Second))))
	result.Checked, result.Keys = count, len(byKey)
	finish(result)
}

func finish(result verdict) {
	line, _ := json.Marshal(result)
	fmt.Println(string(line))
	os.Exit(map[string]int{"valid": 0, "invalid": 1, "unknown": 2}[result.Verdict])
}

func read(input io.Reader, chosen model) (map[string][]porcupine.Operation, int, error) {
	byKey := map[string][]porcupine.Operation{}
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, lineBytesMax)
	count := 0
	for number := 1; lines.Scan(); number++ {
		var op operation
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			return nil, 0, fmt.Errorf("line %d cannot be read: %w", number, err)
		}
		taken, err := convert(op, chosen)
		if err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", number, err)
		}
		count++
		if taken != nil {
			byKey[op.Key] = append(byKey[op.Key], *taken)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, 0, err
	}
	if count == 0 {
		return nil, 0, fmt.Errorf("the history is empty")
	}
	return byKey, count, nil
}

func convert(op operation, chosen model) (*porcupine.Operation, error) {
	taken := porcupine.Operation{ClientId: op.Process, Call: op.Call, Return: math.MaxInt64}
	switch op.Outcome {
	case "ok":
		if op.Return == nil || *op.Return < op.Call {
			return nil, fmt.Errorf("an answered operation returns after its call")
		}
		taken.Return = *op.Return
	case "fail":
		return nil, nil
	case "unknown":
		op.Out = nil
	default:
		return nil, fmt.Errorf("no outcome %q", op.Outcome)
	}
	input, output, err := chosen.parse(op)
	if err != nil || input == nil {
		return nil, err
	}
	taken.Input, taken.Output = input, output
	return &taken, nil
}

// check judges key by key, so that the evidence names one, and so that one hard key does not hide a broken one.
func check(chosen model, byKey map[string][]porcupine.Operation, deadline time.Time) verdict {
	keys := make([]string, 0, len(byKey))
	for key := range byKey {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	result := verdict{Verdict: "valid"}
	for at, key := range keys {
		// What is left is shared evenly; what one key does not need goes to the others.
		left := time.Until(deadline) / time.Duration(len(keys)-at)
		if left <= 0 {
			left = time.Millisecond
		}
		found, info := porcupine.CheckOperationsVerbose(chosen.model, byKey[key], left)
		switch found {
		case porcupine.Illegal:
			result.Verdict = "invalid"
			result.Evidence = append(result.Evidence, explain(chosen, key, byKey[key], info))
		case porcupine.Unknown:
			result.Reason = fmt.Sprintf("key %s with %d operations was not decided in time", key, len(byKey[key]))
			if result.Verdict == "valid" {
				result.Verdict = "unknown"
			}
		}
	}
	return result
}

// explain shows the longest order that fits, and what cannot come after it.
func explain(chosen model, key string, ops []porcupine.Operation, info porcupine.LinearizationInfo) string {
	longest := []porcupine.Operation{}
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, order := range partition {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	placed := map[string]int{}
	describe := func(op porcupine.Operation) string {
		return fmt.Sprintf("[%d %d..%d] %s", op.ClientId, op.Call, op.Return, chosen.model.DescribeOperation(op.Input, op.Output))
	}
	for _, op := range longest {
		placed[describe(op)]++
	}
	text := []string{}
	for _, op := range longest[max(0, len(longest)-6):] {
		text = append(text, describe(op))
	}
	rest := []string{}
	sort.Slice(ops, func(i, j int) bool { return ops[i].Call < ops[j].Call })
	for _, op := range ops {
		if name := describe(op); placed[name] > 0 {
			placed[name]--
		} else if op.Return != math.MaxInt64 && len(rest) < 4 {
			rest = append(rest, name)
		}
	}
	return fmt.Sprintf("key %s: after %s no place for any of %s", key, strings.Join(text, ", "), strings.Join(rest, ", "))
}
