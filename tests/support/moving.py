"""The commands of a script that move disks, calls to the register and the clock, one by one or all that is not held."""

from __future__ import annotations

from tests.support.acting import Acting
from tests.support.describing import call_name, register_text
from tests.support.grammar import CommandError, command
from tests.support.pair import RegisterCall

BEAT_MS = 100
STEPS_MAX = 2000
CALLS = {"claims": ("claim",), "commits": ("commit",), "adds": ("add",), "reads": ("read",), "calls": ("",)}


class Moving(Acting):
    """What moves, and what is held back."""

    def call(self, member: str, name: str) -> RegisterCall:
        for call in self.pair.calls:
            if call.member == member and call_name(call) == name:
                return call
        known = [f"{call_name(call)} of {call.member}" for call in self.pair.calls]
        raise CommandError(f"{member} has no {name} under way; under way: {', '.join(known) or 'nothing'}")

    @property
    def keep(self) -> tuple[str, ...]:
        return tuple(prefix for what, prefixes in CALLS.items() if what in self.held for prefix in prefixes)

    @property
    def disks(self) -> str:
        return "".join(name for name in "ab" if f"disk-{name}" not in self.held)

    # -- disks and the register ------------------------------------------------------------------------------------

    @command("write MEMBER")
    def write(self, name: str) -> list[str]:
        """It hands what is pending to its disk; the write has not ended."""
        self.member(name).write()
        return self.said()

    @command("MEMBER copies what it is about to cut")
    def copies_what_it_cuts(self, name: str) -> list[str]:
        """The first half of a write that `write` began: the copy is there, the cut is not."""
        writing = self.member(name).steps.writing
        if writing is None or not writing.salvage:
            raise CommandError(f"{name} writes nothing that cuts")
        self.member(name).salvage(writing)
        return self.said()

    @command("finish the write of MEMBER")
    def finish_write(self, name: str) -> list[str]:
        """What `write` began has ended, and it hears of that; what was asked for since is not written."""
        self.member(name).synced()
        return self.said()

    @command("sync MEMBER")
    def sync(self, name: str) -> list[str]:
        """Its disk writes everything that it was asked for, and it hears of that."""
        self.member(name).commit()
        return self.said()

    @command("answer CALL of MEMBER")
    def answer(self, call: str, name: str) -> list[str]:
        """The register gets the call, and its answer arrives."""
        self.pair.answer(self.call(name, call))
        return self.said()

    @command("land CALL of MEMBER")
    def land(self, call: str, name: str) -> list[str]:
        """The register gets the call; the answer is still on its way."""
        self.pair.land(self.call(name, call))
        return self.said()

    @command("lose CALL of MEMBER")
    def lose(self, call: str, name: str) -> list[str]:
        """The caller hears nothing in time: unknown. A call that did not land may still do so."""
        self.pair.lose(self.call(name, call))
        return self.said()

    @command("lose CALL of MEMBER if any")
    def lose_if_any(self, call: str, name: str) -> list[str]:
        """As above; nothing if it has none under way."""
        if self.pair.has_call(self.pair.members[name], call):
            self.pair.lose(self.call(name, call))
        return self.said()

    @command("lost calls land")
    def lost_calls_land(self) -> list[str]:
        """Every lost call reaches the register after all."""
        self.pair.land_late()
        return self.said()

    @command("lost calls never land")
    def lost_calls_never_land(self) -> list[str]:
        """They are gone."""
        self.pair.late.clear()
        return self.said()

    @command("the witness is away")
    def witness_away(self) -> list[str]:
        """From now on every call ends unknown; a set may land later."""
        self.pair.witness_away = True
        return self.said()

    @command("the witness is back")
    def witness_back(self) -> list[str]:
        """From now on calls are answered again."""
        self.pair.witness_away = False
        return self.said()

    @command("the witness loses its disk")
    def witness_loses_its_disk(self) -> list[str]:
        """Its register is empty, as if the pair had never been there."""
        self.pair.registers._registers.clear()
        self.teller.say(register_text(self.pair.register))
        return self.said()

    # -- all at once -----------------------------------------------------------------------------------------------

    @command("hold HELD")
    def hold(self, what: str) -> list[str]:
        """From now on `run` and `wait` leave these frames, calls to the register or this disk alone."""
        self.held.add(what)
        return self.said()

    @command("release HELD")
    def release(self, what: str) -> list[str]:
        """`run` and `wait` move them again."""
        if what not in self.held:
            raise CommandError(f"{what} are not held; held: {', '.join(sorted(self.held)) or 'nothing'}")
        self.held.discard(what)
        return self.said()

    @command("run")
    def run(self) -> list[str]:
        """Everything that is not held moves until nothing is under way. No time passes."""
        self._run()
        return self.said()

    def _run(self) -> None:
        self.pair.quiesce(keep=self.keep, link="frames" not in self.held, disks=self.disks)

    @command("run until MEMBER is in STATE")
    def run_until(self, name: str, state: str) -> list[str]:
        """Step by step, until its handoff has come that far."""
        for _ in range(STEPS_MAX):
            if self.member(name).core.handoff.state.name == state:
                return self.said()
            senders = "" if "frames" in self.held else "ab"
            if not self.pair.one(senders=senders, disks=self.disks, keep=self.keep):
                break
        now = self.member(name).core.handoff.state.name
        raise CommandError(f"{name} never comes to {state}; its handoff is in {now}")

    @command("run and lose calls of MEMBER for MS")
    def run_without_register(self, name: str, milliseconds: str) -> list[str]:
        """Everything but the register moves, and time passes: none of its calls is answered."""
        self._without_answers(name, int(milliseconds))
        return self.said()

    @command("run and lose all calls for MS")
    def run_without_any_register(self, milliseconds: str) -> list[str]:
        """As above, for both members."""
        self._without_answers("ab", int(milliseconds))
        return self.said()

    def _without_answers(self, members: str, milliseconds: int) -> None:
        end_ms = self.pair.now_ms + milliseconds
        while self.pair.now_ms < end_ms:
            for call in [call for call in self.pair.calls if call.member in members]:
                self.pair.lose(call)
            self.pair.quiesce(keep=("",), link="frames" not in self.held, disks=self.disks)
            self.pair.tick(20)

    @command("only MEMBER runs for MS")
    def only_one_runs(self, name: str, milliseconds: str) -> list[str]:
        """Its disk and its calls, while time passes for both; no frame arrives."""
        end_ms = self.pair.now_ms + int(milliseconds)
        member = self.member(name)
        while self.pair.now_ms < end_ms:
            for call in [call for call in self.pair.calls if call.member == name]:
                self.pair.answer(call)
            self.pair.tick(20)
            member.commit()
        return self.said()

    @command("tick MS")
    def tick(self, milliseconds: str) -> list[str]:
        """Time passes at once, and nothing else happens."""
        self.pair.tick(int(milliseconds))
        return self.said()

    @command("wait MS")
    def wait(self, milliseconds: str) -> list[str]:
        """As `run`, while so much time passes, with heartbeats."""
        self._wait(int(milliseconds))
        return self.said()

    def _wait(self, milliseconds: int) -> None:
        self._run()
        end_ms = self.pair.now_ms + milliseconds
        while self.pair.now_ms < end_ms:
            self.pair.tick(min(BEAT_MS, end_ms - self.pair.now_ms))
            for member in self.pair.up:
                if "frames" not in self.held:
                    self.pair.beat(member)
            self._run()
        if not self.held:
            self.pair.checks.at_rest()
