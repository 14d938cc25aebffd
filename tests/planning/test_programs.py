"""Programs bound to a world: what they see, what refuses them, and how they end with it."""

import json
from types import SimpleNamespace

import pytest

from llm_planning.domain import Domain, Step
from llm_planning.execution.episode import Episode
from llm_planning.execution.programs import ProgramResult, called_in, carry_out, entry_of
from llm_planning.execution.sandbox import CallError, why_unsealed

pytestmark = pytest.mark.skipif(why_unsealed() is not None, reason=str(why_unsealed()))


class Stairs(Domain):
    """Five steps up. A slip is an action done in part: it costs a life."""

    goal = "Stand on the fifth step."

    def start(self, seed):
        return (0, 2)

    def describe(self, state):
        return str(state)

    def actions(self, state):
        return ["up", "slip"]

    def step(self, state, action, rng):
        height, lives = state
        if action == "up":
            return Step((height + 1, lives), done=height == 4, text="you climb")
        if action == "slip" and lives:
            return Step((height, lives - 1), obstacle="you slip")
        return Step(state, obstacle=f"no {action}")


class Legs:
    """The control primitives of the stairs: `go(bot, how)`."""

    prelude = """
    (() => {
      const call = globalThis.__call;
      delete globalThis.__call;
      let seen = call("look", []);
      const chat = (text) => call("chat", [text]);
      globalThis.bot = { get height() { return seen.height; }, chat };
      globalThis.go = async (bot, ...how) => {
        const reply = call("go", how);
        seen = reply.look;
        return reply.done;
      };
    })();
    """
    manual = version = ""
    seeded = ()

    def action(self, name, arguments):
        if name != "go" or len(arguments) != 1:
            raise CallError(f"{name} takes one word")
        return arguments[0]

    def look(self, state):
        return {"height": state[0]}

    def plain(self, action):
        return f"async function act(bot) {{ await go(bot, {json.dumps(action)}); }}"

    def arguments(self, action):
        return (action,)


async def climb(body, *, skills=(), episode=None, name="act"):
    episode = episode or await Episode.begin(Stairs(), seed=0)
    program = f"async function {name}(bot) {{ {body} }}"
    done = await carry_out(program, episode, Legs(), skills=skills, seed=0)
    return done, episode


async def test_each_call_is_an_action_and_the_bot_sees_its_state():
    done, episode = await climb("""
      bot.chat(`at ${bot.height}`);
      const all = await go(bot, "up");
      bot.chat(`at ${bot.height}: ${all}`);
      bot.chat(`slipped: ${await go(bot, "slip")}`);
    """)
    assert done.error is None
    assert done.messages == ("at 0", "at 1: true", "slipped: false")
    assert [move.action for move in done.moves] == ["up", "slip"]
    assert episode.state == (1, 1)
    assert str(done) == (
        "No error.\nWhat was done:\n- you climb\n- slip: you slip\n"
        "Chat:\n- at 0\n- at 1: true\n- slipped: false"
    )


async def test_a_refusal_is_thrown_and_recorded():
    done, episode = await climb('await go(bot, "up");\nawait go(bot, "fly");\nawait go(bot, "up");')
    assert done.error == "Error: fly: no fly (line 2)"
    assert [move.action for move in done.moves] == ["up", "fly"]
    assert episode.state == (1, 2)
    assert str(done).startswith("Error: fly: no fly (line 2)\n")


async def test_a_program_can_catch_a_refusal():
    done, _ = await climb("""
      try { await go(bot, "fly"); } catch (error) { bot.chat(error.message); }
      await go(bot, "up");
    """)
    assert done.error is None
    assert done.messages == ("fly: no fly",)


async def test_impossible_arguments_are_no_action():
    done, episode = await climb('await go(bot, "up", "down");')
    assert done.error.startswith("Error: go takes one word")
    assert not episode.moves


async def test_the_end_of_the_episode_ends_the_program_without_an_error():
    done, episode = await climb("""
      for (;;) { try { await go(bot, "up"); } catch { bot.chat("never"); } }
    """)
    assert episode.over
    assert (done.error, done.messages, len(done.moves)) == (None, (), 5)
    again, _ = await climb('bot.chat("on"); await go(bot, "up"); bot.chat("off");', episode=episode)
    assert (again.error, again.messages, again.moves) == (None, ("on",), ())


async def test_feedback_counts_from_where_the_program_began():
    _, episode = await climb('await go(bot, "up");')
    done, _ = await climb('await go(bot, "slip");', episode=episode)
    assert [move.action for move in done.moves] == ["slip"]


async def test_the_host_is_out_of_reach():
    done, episode = await climb('__call("go", ["up"]);')
    assert done.error == "ReferenceError: __call is not defined (line 1)"
    assert not episode.moves


async def test_a_program_without_an_entry_is_not_run():
    episode = await Episode.begin(Stairs(), seed=0)
    done = await carry_out("function act(bot) {}", episode, Legs(), seed=0)
    assert "async function NAME(bot)" in done.error


async def test_skills_are_loaded_before_the_program_and_keep_to_themselves():
    skill = SimpleNamespace(
        source="globalThis.twice = (() => { const how = 'up';\n"
        "async function twice(bot) { await go(bot, how); await go(bot, how); }\nreturn twice; })();"
    )
    done, episode = await climb("const how = 1; await twice(bot);", skills=[skill])
    assert (done.error, episode.state) == (None, (2, 2))
    done, _ = await climb("await twice(bot);")
    assert done.error == "ReferenceError: twice is not defined (line 1)"


async def test_an_error_of_the_world_is_not_the_programs():
    class Broken(Stairs):
        def step(self, state, action, rng):
            raise ZeroDivisionError

    episode = await Episode.begin(Broken(), seed=0)
    with pytest.raises(ZeroDivisionError):
        await carry_out(Legs().plain("up"), episode, Legs(), seed=0)


async def test_what_a_program_says_is_bounded_and_has_no_control_characters():
    done, _ = await climb(r'bot.chat("\u001b[2J" + "a".repeat(10000));')
    (message,) = done.messages
    assert len(message) == 200
    assert message.isprintable()


def test_feedback_tells_the_last_twenty():
    text = str(ProgramResult(messages=tuple(map(str, range(25)))))
    assert text.splitlines()[:4] == ["No error.", "Chat:", "- (5 earlier)", "- 5"]


@pytest.mark.parametrize(
    ("program", "entry"),
    [
        ("async function a(bot) {}\nasync function b(bot) {}", "b"),
        ("async function a(bot) { async function b() {} }", "a"),
        ("async function a(bot) {}\n// async function b(bot) {}", "a"),
        ("async function a(bot) {}\n/* async function b(bot) {} */", "a"),
        ("async function a(bot) {}\nconst text = 'async function b(bot) {}';", "a"),
        ('async function a(bot) { bot.chat("}"); }\nasync function b(bot) {}', "b"),
        # JavaScript's comments end at four characters, and its texts at two.
        *(
            (f"async function a() {{}} // {end}async function b() {{}}", "b")
            for end in "\n\r\u2028\u2029"
        ),
        *(
            (f"async function a() {{}} // {no}async function b() {{}}", "a")
            for no in "\x0b\x0c\x85"
        ),
        *((f"async function a() {{}} '{no}async function b() {{}}'", "a") for no in "\u2028\u2029"),
        *((f"async function a() {{}} it's{end}async function b() {{}} '", "b") for end in "\n\r"),
        ("async  function\n $a1 (bot) {}", "$a1"),
        ("function a(bot) {}", None),
        ("const a = async (bot) => {};", None),
        ("", None),
    ],
)
def test_the_entry_is_the_last_async_function_at_the_top(program, entry):
    assert entry_of(program) == entry


def test_calls_are_names_before_a_bracket():
    code = """
    async function own(bot) {
      await first(bot); second (bot);
      // third(bot)
      bot.fourth("fifth(bot)"); const sixth = 1; `seventh(bot) ${await eighth(bot)} ${[ninth(1)]}`;
    }
    """
    assert called_in(code) == {"own", "first", "second", "eighth", "ninth"}
