package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// What controllers decide of one broker group, as far as clients can see it.
//
// Claims and registrations happen only when somebody asks, so their model is exact: an id belongs to one check code, the
// next id is one above the highest that was ever taken, registrations count. Elections happen by themselves, so between
// two looks at a group its epoch and its in-sync version may have grown; but an epoch has one master, who may end and
// not come back, a version has one set, an election makes a new version, and nothing ever goes back.
//
//	next                           -> id
//	claim    id code               -> granted
//	register id store incarnation  -> registration
//	alter    broker epoch version members -> version members   (only when it was accepted; perhaps without some)
//	look                           -> epoch master version members   (any answer that shows a group's roles)
type controllerInput struct {
	F           string
	ID          int    `json:"id"`
	Code        string `json:"code"`
	Store       string `json:"store"`
	Incarnation string `json:"incarnation"`
	Broker      int    `json:"broker"`
	Epoch       int    `json:"epoch"`
	Version     int    `json:"version"`
	Members     []int  `json:"members"`
}

type controllerOutput struct {
	ID           int   `json:"id"`
	Granted      bool  `json:"granted"`
	Registration int   `json:"registration"`
	Epoch        int   `json:"epoch"`
	Master       int   `json:"master"`
	Version      int   `json:"version"`
	Members      []int `json:"members"`
}

const idsMax = 32

// Which of those that an unanswered alteration names are in the set.
const unknown = "?"

type claimed struct {
	Taken bool
	Code  string
}

type process struct {
	Number             int
	Store, Incarnation string
}

// The state is a value without pointers, so that porcupine compares it with ==.
type controllerState struct {
	Claims        [idsMax]claimed
	Processes     [idsMax]process
	Next          int
	Registrations int
	Epoch         int
	Master        int
	Version       int
	Members       string
	Seen          bool
}

func parseController(op operation) (any, any, error) {
	input := controllerInput{F: op.F}
	if err := json.Unmarshal(op.In, &input); err != nil {
		return nil, nil, fmt.Errorf("arguments of %s: %w", op.F, err)
	}
	if input.ID < 0 || input.ID >= idsMax {
		return nil, nil, fmt.Errorf("this model knows broker ids below %d", idsMax)
	}
	if op.Outcome == "unknown" {
		if op.F == "next" || op.F == "look" {
			return nil, nil, nil
		}
		return input, nil, nil
	}
	output := controllerOutput{}
	if err := json.Unmarshal(op.Out, &output); err != nil {
		return nil, nil, fmt.Errorf("answer of %s: %w", op.F, err)
	}
	return input, output, nil
}

func (s controllerState) having(id int, code string) controllerState {
	if !s.Claims[id].Taken {
		s.Claims[id] = claimed{true, code}
		s.Next = max(s.Next, id+1)
	}
	return s
}

func (s controllerState) claim(in controllerInput) (bool, controllerState) {
	found, first := s.Claims[in.ID], s.Next == 1
	if (first && in.ID != 1) || (found.Taken && found.Code != in.Code) {
		return false, s
	}
	return true, s.having(in.ID, in.Code)
}

// register gives the number of a process, and ends the leadership of the one before it.
func (s controllerState) register(in controllerInput) (int, controllerState) {
	found := s.Processes[in.ID]
	if found.Number > 0 && found.Store == in.Store && found.Incarnation == in.Incarnation {
		return found.Number, s
	}
	s.Registrations++
	s.Processes[in.ID] = process{s.Registrations, in.Store, in.Incarnation}
	if s.Master == in.ID {
		s.Master = 0
	}
	return s.Registrations, s.having(in.ID, "")
}

func (s controllerState) look(out controllerOutput) (bool, controllerState) {
	members := fmt.Sprint(out.Members)
	if out.Epoch < s.Epoch || out.Version < s.Version {
		return false, s
	}
	if s.Seen && out.Version == s.Version && members != s.Members && s.Members != unknown {
		return false, s
	}
	if out.Epoch > s.Epoch && out.Version <= s.Version {
		return false, s
	}
	if s.Seen && out.Epoch == s.Epoch && out.Master != s.Master && out.Master != 0 {
		return false, s
	}
	s.Epoch, s.Master, s.Version, s.Members, s.Seen = out.Epoch, out.Master, out.Version, members, true
	return true, s
}

func (s controllerState) alter(in controllerInput, out controllerOutput, answered bool) (bool, controllerState) {
	current := s.Seen && in.Epoch == s.Epoch && in.Version == s.Version && in.Broker == s.Master
	if !answered {
		if current {
			s.Version, s.Members = s.Version+1, unknown
		}
		return true, s
	}
	// A master may know of an epoch or a version that nobody has looked at yet.
	fits, s := s.look(controllerOutput{Epoch: in.Epoch, Master: in.Broker, Version: out.Version, Members: out.Members})
	return fits && out.Version == in.Version+1 && among(out.Members, in.Members), s
}

// among: whoever may not join is left out of a set, and nobody else comes into it.
func among(some, all []int) bool {
	for _, each := range some {
		if !slices.Contains(all, each) {
			return false
		}
	}
	return len(some) > 0
}

func stepController(state, input, output any) (bool, any) {
	s, in := state.(controllerState), input.(controllerInput)
	out, answered := output.(controllerOutput)
	fits, after := true, s
	switch in.F {
	case "next":
		fits = out.ID == s.Next
	case "claim":
		var granted bool
		granted, after = s.claim(in)
		fits = !answered || granted == out.Granted
	case "register":
		var number int
		number, after = s.register(in)
		fits = !answered || number == out.Registration
	case "look":
		fits, after = s.look(out)
	case "alter":
		fits, after = s.alter(in, out, answered)
	default:
		fits = false
	}
	return fits, after
}

func describeController(input, output any) string {
	in := input.(controllerInput)
	out, answered := output.(controllerOutput)
	answer := "not answered"
	switch {
	case !answered:
	case in.F == "next":
		return fmt.Sprintf("next id %d", out.ID)
	case in.F == "look":
		return fmt.Sprintf("epoch %d of %d, version %d %v", out.Epoch, out.Master, out.Version, out.Members)
	case in.F == "claim":
		answer = fmt.Sprint(out.Granted)
	case in.F == "register":
		answer = fmt.Sprint(out.Registration)
	case in.F == "alter":
		answer = fmt.Sprintf("version %d", out.Version)
	}
	switch in.F {
	case "claim":
		return fmt.Sprintf("claim %d by %s: %s", in.ID, in.Code, answer)
	case "register":
		return fmt.Sprintf("register %d %s/%s: %s", in.ID, in.Store, in.Incarnation, answer)
	}
	return fmt.Sprintf("alter %v by %d in epoch %d, version %d: %s", in.Members, in.Broker, in.Epoch, in.Version, answer)
}

func controllerModel() model {
	return model{parseController, porcupine.Model{
		Init:              func() any { return controllerState{Next: 1} },
		Step:              stepController,
		DescribeOperation: describeController,
	}}
}
