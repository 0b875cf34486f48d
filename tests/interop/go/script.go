// The script: read and checked as a whole before anything is done.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Keys of each verb, all of them needed.
var verbs = map[string][]string{
	"decode": {"message", "facts"}, "create": {"queue", "type"}, "send": {"queue", "count"},
	"stream": {"queue", "count", "batch"}, "browse": {"queue", "first", "count"}, "receive": {"queue", "count"},
	"settle": {"queue"}, "consume": {"queue", "count"}, "reply": {"queue"}, "answers": {"queue", "count"},
	"expect": {"queue", "length"}, "kill": {}, "handoff": {}, "await": {},
}
var (
	numbers = []string{"count", "batch", "first", "length"}
	number  = regexp.MustCompile(`^[0-9]{1,7}$`)
	choices = map[string][]string{
		"type": {"queued_ack", "two_way"}, "message": {"EnqueueRequest", "DequeueResponse", "ProduceResponse"},
	}
)

type step struct {
	at, verb, queue string
	text            map[string]string
}

func (s step) number(key string) int { n, _ := strconv.Atoi(s.text[key]); return n }

func parse(path string) ([]step, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var steps []step
	for i, line := range strings.Split(string(content), "\n") {
		before, _, _ := strings.Cut(line, "#")
		if words := strings.Fields(before); len(words) > 0 {
			at := fmt.Sprintf("%s:%d", filepath.Base(path), i+1)
			text, err := values(words[0], words[1:])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", at, err)
			}
			steps = append(steps, step{at, words[0], text["queue"], text})
		}
	}
	return steps, nil
}

func values(verb string, words []string) (map[string]string, error) {
	keys, known := verbs[verb]
	if !known {
		return nil, fmt.Errorf("unknown verb %s", verb)
	}
	text := map[string]string{}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch _, again := text[key]; {
		case key == "" || value == "":
			return nil, fmt.Errorf("%s is not key=value", word)
		case !slices.Contains(keys, key):
			return nil, fmt.Errorf("%s has no %s=", verb, key)
		case again:
			return nil, fmt.Errorf("%s= is given twice", key)
		case slices.Contains(numbers, key) && !number.MatchString(value):
			return nil, fmt.Errorf("%s is not a number", word)
		case choices[key] != nil && !slices.Contains(choices[key], value):
			return nil, fmt.Errorf("%s is none of %s", word, strings.Join(choices[key], ", "))
		}
		text[key] = value
	}
	for _, key := range keys {
		if _, given := text[key]; !given {
			return nil, fmt.Errorf("%s needs %s=", verb, key)
		}
	}
	return text, nil
}
