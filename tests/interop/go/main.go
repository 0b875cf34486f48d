// Does what it is told, a step a line on stdin: prints what it sees, and then ok. tests/interop/README.md has the lines.
//
//	client <address> [<directory of credentials>]
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"

	"google.golang.org/grpc"
)

func (c *client) do(verb, name string, values []string) {
	number := func(i int) int {
		n, err := strconv.Atoi(values[i])
		if err != nil {
			log.Fatal(err)
		}
		return n
	}
	switch verb {
	case "decode":
		decode(name, values[0])
	case "create":
		c.create(name, values[0])
	case "send":
		c.send(name, number(0), number(1))
	case "stream":
		c.stream(name, number(0), number(1), number(2))
	case "browse":
		c.browse(name)
	case "receive":
		c.receive(name, number(0))
	case "settle":
		c.settle(name)
	case "consume":
		c.consume(name, number(0))
	case "unit":
		c.unit(name, values...)
	case "reply":
		c.reply(name)
	case "answers":
		c.answers(name)
	case "pairwise":
		c.pairwise(name)
	case "ask":
		c.ask(name, number(0), number(1))
	case "once":
		c.once(name)
	case "length":
		c.length(name)
	default:
		log.Fatal("unknown verb ", verb)
	}
}

func main() {
	options, err := security(strings.Join(os.Args[2:], ""))
	if err != nil {
		log.Fatal(err)
	}
	conn, err := grpc.NewClient(os.Args[1], options...)
	if err != nil {
		log.Fatal(err)
	}
	c := newClient(conn)
	for steps := bufio.NewScanner(os.Stdin); steps.Scan(); {
		words := strings.Fields(steps.Text())
		c.do(words[0], words[1], words[2:])
		fmt.Println("ok")
	}
}
