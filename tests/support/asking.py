"""The commands of a script that look at a pair in one process and say what must hold; only `heal` changes anything.

An `expect` holds by more than the text: it fails whatever the script says that it prints. So does the end of every
script, after which everything works again, nothing acknowledged is missing and nothing is there twice.
"""

from __future__ import annotations

from failover.marks import Role
from failover.register import RegisterState
from tests.support import script
from tests.support.batching import Batching
from tests.support.calling import outcome_text
from tests.support.checks import BrokenRuleError, require
from tests.support.clients import check_contents, remaining
from tests.support.describing import log_text, messages_on_disk, names, register_text
from tests.support.grammar import CommandError, command
from tests.support.pair import drive
from tests.support.reacting import Reacting
from tests.support.siding import QUEUE as SIDED
from tests.support.siding import Siding
from tests.support.weighing import Weighing
from tests.support.writing import Writing


class Story(Writing, Batching, Weighing, Reacting, Siding):
    """The whole language over the deterministic pair.

    `heed=False` skips every `expect`: what is left are the checks that run at each step and at the end. A rule that is
    taken out must fail by those alone where the story ends in a loss.
    """

    def __init__(self, *, heed: bool = True) -> None:
        super().__init__()
        self.heed = heed

    def expect(self, holds: object, text: str) -> list[str]:
        if self.heed:
            require(holds, text)
        return self.said()

    # -- look ------------------------------------------------------------------------------------------------------

    @command("show")
    def show(self) -> list[str]:
        """Each member's role, epoch, data mark and log, and the register."""
        lines = self.said()
        for member in self.pair.members.values():
            if not member.up:
                lines.append(f"{member.name} is down")
                continue
            state = member.shared.state
            alone = f", alone since {state.solo_since}" if state.solo_since else ""
            needs = f", commits need {names(member.core.mastership.commit.required)}" if member.serving else ""
            lines.append(
                f"{member.name} {member.role.name} of epoch {state.epoch}, {state.data.name}, "
                f"log {member.shared.log.last_index}{needs}{alone}"
            )
        return [*lines, register_text(self.pair.register)]

    @command("show why MEMBER waits")
    def show_why(self, name: str) -> list[str]:
        """What an operator reads about it."""
        return [*self.said(), f"{name}: {self.member(name).shared.last_change}"]

    @command("show the disk of MEMBER")
    def show_disk(self, name: str) -> list[str]:
        """Every record there, with its epoch."""
        return [*self.said(), log_text(self.pair.members[name])]

    # -- the same over real processes ------------------------------------------------------------------------------

    @command("state")
    def state(self) -> list[str]:
        """Role, data mark and epoch of both."""
        return [f"{m.name} {m.role.name} {m.shared.state.data.name} epoch {m.shared.state.epoch}" for m in self.pair.up]

    @command("contents")
    def contents(self) -> list[str]:
        """What is in the queue, in order."""
        require(self.pair.master is not None, "nobody serves")
        found = remaining(self.pair.master)  # type: ignore[arg-type]  # asked above
        return [" ".join(payload.decode().split("/")[0] for _, payload in found) or "nothing"]

    @command("send OP to MEMBER and wait")
    def send_and_wait(self, name: str, member: str) -> list[str]:
        """As `send`, until the client has its answer; prints only that."""
        self.send(name, member)
        self._quietly_wait()
        done = self.op(name).ops[0].done
        require(done is not None, f"{name} is not answered")
        return [f"index {done.first_index} epoch {done.epoch} copies {done.copies}"]  # type: ignore[union-attr]

    @command("handoff at MEMBER and wait")
    def handoff_and_wait(self, name: str) -> list[str]:
        """An operator asks there, and waits for the end; prints only that."""
        return self._handoff(name)

    @command("dry handoff at MEMBER and wait")
    def dry_handoff_and_wait(self, name: str) -> list[str]:
        """As above, a dry run: it asks everything and changes nothing."""
        return self._handoff(name, dry_run=True)

    @command("handoff at MEMBER to MEMBER and wait")
    def handoff_to_and_wait(self, name: str, to: str) -> list[str]:
        """As above, naming who is to be master; done at once if it is."""
        master = self.pair.master
        if master is not None and master.name == to:
            return [f"done: {self._master()}"]
        return self._handoff(name)

    @command("handoff at both and wait")
    def handoff_at_both_and_wait(self) -> list[str]:
        """Two operators ask at the same time."""
        told = {name: self.member(name).hand_over() for name in "ab"}
        self._quietly_wait()
        lines = []
        for name, each in told.items():
            require(len(each) == 1, f"the operator at {name} was told {each}")
            lines.append(f"{name} {outcome_text(each[0])}" + (f": {self._master()}" if each[0].done else ""))
        return lines

    def _handoff(self, name: str, *, dry_run: bool = False) -> list[str]:
        told = self.member(name).hand_over(dry_run=dry_run)
        self._quietly_wait()
        require(len(told) == 1, f"the operator at {name} was told {told}")
        return [f"{outcome_text(told[0])}: {self._master()}"]

    def _quietly_wait(self) -> None:
        """Real processes do not tell what goes on inside, so neither does this."""
        self._wait(200)
        self.said()
        self.end_of_step()

    def _master(self) -> str:
        master = self.pair.master
        require(master is not None, "nobody serves")
        return f"{master.name} is master in epoch {master.shared.state.epoch}"  # type: ignore[union-attr]

    # -- expect ----------------------------------------------------------------------------------------------------

    @command("expect OP is answered")
    def expect_answered(self, name: str) -> list[str]:
        """Its client has been told that it is done."""
        return self.expect(self.op(name).ops[0].done is not None, f"{name} is not answered")

    @command("expect OP is unanswered")
    def expect_unanswered(self, name: str) -> list[str]:
        """Its client has been told nothing good so far."""
        return self.expect(self.op(name).ops[0].done is None, f"{name} is answered: {self.op(name).ops[0].done}")

    @command("expect OP has copies COUNT")
    def expect_copies(self, name: str, count: str) -> list[str]:
        """Its client has been told that so many members hold it."""
        done = self.op(name).ops[0].done
        return self.expect(
            done is not None and done.copies == int(count), f"{name} is answered {done}, not with copies {count}"
        )

    @command("expect the consumer was given OP")
    def expect_given(self, name: str) -> list[str]:
        """It was handed out, and is not settled yet."""
        return self.expect(self._was_given(name), f"the consumer was not given {name}")

    @command("expect the consumer was not given OP")
    def expect_not_given(self, name: str) -> list[str]:
        """Its consumer has not seen it, though it has credit."""
        return self.expect(not self._was_given(name), f"the consumer was given {name}")

    def _was_given(self, name: str) -> bool:
        self.op(name)
        return any(payload.decode().split("/")[0] == name for _, _, payload in self.reader.delivered)

    @command("expect MEMBER serves")
    def expect_serves(self, name: str) -> list[str]:
        """It is master, and its gate is open."""
        return self.expect(self.member(name).serving, f"{name} does not serve: {self.pair.describe()}")

    @command("expect MEMBER does not serve")
    def expect_does_not_serve(self, name: str) -> list[str]:
        """It is not master."""
        return self.expect(not self.member(name).serving, f"{name} serves: {self.pair.describe()}")

    @command("expect MEMBER is ROLE")
    def expect_role(self, name: str, role: str) -> list[str]:
        """See docs/PROTOCOL.md for the roles."""
        return self.expect(self.member(name).role is Role[role], f"{name} is not {role}: {self.pair.describe()}")

    @command("expect the copy of MEMBER is MARK")
    def expect_mark(self, name: str, mark: str) -> list[str]:
        """See docs/PROTOCOL.md for the marks."""
        return self.expect(self.member(name).shared.state.data.name == mark, f"{name}'s copy is not {mark}")

    @command("expect the disk of MEMBER holds OP")
    def expect_on_disk(self, name: str, op: str) -> list[str]:
        """Its record is there, committed or not."""
        self.op(op)
        return self.expect(op in messages_on_disk(self.pair.members[name]), f"{op} is not on the disk of {name}")

    @command("expect MEMBER has set OP aside as acknowledged")
    def expect_set_aside(self, name: str, op: str) -> list[str]:
        """Before a cut its record was copied to a file, where an operator finds it, marked as acknowledged."""
        return self._expect_set_aside(name, op, acknowledged=True)

    @command("expect MEMBER has set OP aside as unanswered")
    def expect_set_aside_unanswered(self, name: str, op: str) -> list[str]:
        """As above; nobody was told that it is done."""
        return self._expect_set_aside(name, op, acknowledged=False)

    def _expect_set_aside(self, name: str, op: str, *, acknowledged: bool) -> list[str]:
        self.op(op)
        marks = self.pair.members[name].salvaged
        record = self.teller.aside.get((name, op))
        if record not in marks:
            return self.expect(holds=False, text=f"{op} is not set aside at {name}")
        return self.expect(marks[record] is acknowledged, f"{op} is set aside at {name} with the wrong mark")

    @command("expect a pair")
    def expect_pair(self) -> list[str]:
        """Both are in step, both must acknowledge, and the register says so."""
        return self.expect(self.pair.is_paired, f"not a pair: {self.pair.describe()}")

    @command("expect at most epoch COUNT")
    def expect_epoch(self, count: str) -> list[str]:
        """Epochs have not run up."""
        return self.expect(self.pair.register.epoch <= int(count), f"epochs run up: {self.pair.register.epoch}")

    @command("expect the operator at MEMBER is told ANSWER")
    def expect_told(self, name: str, answer: str) -> list[str]:
        """How the newest handoff that was begun there ended: done, IN_DOUBT or the reason of a refusal."""
        asked = [told for member, _, told in self.told if member.name == name]
        if not asked:
            raise CommandError(f"no handoff was begun at {name}")
        heard = [",".join(each.reasons) or "done" for each in asked[-1]] or ["nothing"]
        return self.expect(heard == [answer], f"the operator at {name} heard {'; '.join(heard)}")

    @command("expect the register names MEMBER")
    def expect_register_names(self, name: str) -> list[str]:
        """As holder of a committed epoch."""
        register = self.pair.register
        named = register.holder == name and register.state is RegisterState.COMMITTED
        return self.expect(named, f"the register does not name {name}: {register}")

    @command("expect COUNT is OP at both sides")
    def expect_number(self, count: str, name: str) -> list[str]:
        """Both processes have acted on it, and it was that message."""
        number = int(count)
        acted = all(process.acted >= number for process in self.processes.values())
        known = self.numbered.get(number, "nothing")
        return self.expect(acted and known == name, f"{number} is {known}, at both: {acted}")

    @command("expect COUNT is chosen at MEMBER")
    def expect_chosen(self, count: str, member: str) -> list[str]:
        """That member has a record which says what this number stands for."""
        selection = self._machine(member).state.named(SIDED).selection
        is_chosen = selection is not None and selection.following > int(count)
        return self.expect(is_chosen, f"{count} is not chosen at {member}")

    # -- the end ---------------------------------------------------------------------------------------------------

    @command("heal")
    def heal(self) -> list[str]:
        """Everything works again, clients repeat what is unanswered; then all is checked. The end of every script."""
        self.finish()
        self.teller.take()
        self.teller.take_logs()
        return [*self.show(), f"queue: {' '.join(self.contents())}"]

    def finish(self) -> None:
        """The checks of a pair at rest; done by the end of a script even if it does not say `heal`."""
        pair = self.pair
        self.held.clear()
        pair.witness_away = False
        try:
            pair.heal()
        except BrokenRuleError:
            raise
        except AssertionError as error:
            raise BrokenRuleError(str(error)) from error
        for client in self.clients.values():
            for member in pair.up:
                client.retry(member)
                pair.settle(300)
        pair.checks.equal()
        if not self.has_queue:
            self.create_queue()
            pair.settle(300)
        expected = [client for name, client in self.clients.items() if name not in self.accepted]
        check_contents(pair, list(expected), self.reader)
        self.check_read()
        self.check_batches()
        self.check_weights()
        self.check_sides()
        self.check_queues()
        self._handoffs_ended()

    def _handoffs_ended(self) -> None:
        if not self.told:
            return
        self.pair.settle(4000)
        for member in self.pair.up:
            require(member.core.handoff.state.is_steady, f"{member.name} is still {member.core.handoff.state.name}")
            require(not member.shared.draining, f"{member.name} still drains")
            require(not len(member.core.holding), f"{member.name} still holds calls")
        for member, incarnation, told in self.told:
            require(len(told) <= 1, f"{member.name} was told twice: {told}")
            require(told or member.incarnation != incarnation, f"{member.name} was never told how its handoff ended")


def told(name: str, *, heed: bool = True) -> list[list[str]]:
    """Runs a script of tests/scripts to its end, with every check but that of its text; what it printed."""
    story = Story(heed=heed)
    printed = drive(script.play(script.load(script.SCRIPTS / f"{name}.txt"), story))
    story.finish()
    return printed
