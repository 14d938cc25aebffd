"""The process that runs one JavaScript program: it seals itself, then reads the program.

`sandbox.py` starts it without this package. Its numbers are arguments of the command line; texts
are lines of JSON on its standard input. On its standard output, which is the same socket, it writes
`{"sealed": [...]}`, then `[NAME, ARGUMENTS]` for each call of the host, whose reply is
`[true, VALUE]` or `[false, MESSAGE]`, and at last `{"end": null}`, `{"end": [ERROR, STACK]}` or, if
a promise never settles, `{"unsettled": []}`.

The engine reads and writes the JSON of the program, so that Python behind it parses nothing.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # like the one in `typing`, whose import takes some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable

WRAPPER = r"""
(function () {
  "use strict";
  const { __say: say, __end: end, Error, TypeError, RangeError, String } = globalThis;
  const { parse, stringify } = JSON;
  const { isArray } = Array;
  const { isFinite } = Number;
  const { isError } = Error;
  const of = (method) => Function.prototype.call.bind(method);
  const cut = of(String.prototype.slice);
  const isWhole = of(String.prototype.isWellFormed);
  const whole = of(String.prototype.toWellFormed);
  const join = of(Array.prototype.join);
  // The engine keeps a text that is put together as its parts, and Python cannot take that.
  const flat = (text) => join([text], "");

  // No clock, no second thread, nothing that depends on when memory is collected.
  for (const name of ["__say", "__end", "Date", "performance", "Atomics", "SharedArrayBuffer",
                      "WebAssembly", "WeakRef", "FinalizationRegistry", "gc"]) {
    delete globalThis[name];
  }
  // It shows the functions that called, those of this text too.
  delete Error.prepareStackTrace;

  function plain(key, value) {
    if (!isWhole(key) || (typeof value === "string" && !isWhole(value))) {
      throw new TypeError("half a character cannot be an argument");
    }
    if (typeof value === "number" && !isFinite(value)) {
      throw new TypeError(`${value} cannot be an argument`);
    }
    if (typeof value === "function" || typeof value === "symbol") {
      throw new TypeError(`a ${typeof value} cannot be an argument`);
    }
    return value;
  }

  globalThis.__call = function (name, values) {
    const told = isArray(values) ? stringify(values, plain) : undefined;
    // A method toJSON of the program may make anything of them.
    if (typeof told !== "string" || told[0] !== "[") {
      throw new TypeError("arguments must be plain values");
    }
    const text = `[${stringify(whole(`${name}`))},${told}]`;
    if (text.length > LONGEST) {
      throw new RangeError(`a call has ${text.length} characters, and at most LONGEST are heard`);
    }
    const reply = parse(say(flat(text)));
    if (reply[0] !== true) {
      throw new Error(reply[1]);
    }
    return reply[1];
  };

  // sfc32, a generator of random numbers by Chris Doty-Humphrey
  let [a, b, c, d] = [SEEDS];
  Math.random = function random() {
    const t = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + t) | 0;
    return (t >>> 0) / 4294967296;
  };

  function told(thrown) {
    let text = "a value that is no Error", stack = "";
    try {
      if (thrown === undefined || thrown === null) {
        text = "null";
      } else if (isError(thrown)) {
        text = String(thrown);
        stack = String(thrown.stack);
      } else {
        text = typeof thrown === "string" ? thrown : stringify(thrown) ?? text;
      }
    } catch {}
    const said = whole(cut(text, 0, 2000)), where = whole(cut(stack, 0, 2000));
    return `{"end":[${stringify(said)},${stringify(where)}]}`;
  }

  return async function (entry) {
    try {
      await entry();
      end('{"end":null}');
    } catch (thrown) {
      // What keeps an error from being told is that no memory is left.
      end('{"end":["InternalError: out of memory",""]}');
      end(flat(told(thrown)));
    }
  };
})()
"""


def serve(seal: Callable[..., list[str]]) -> None:
    """Runs one program and ends the process.

    Args:
        seal: `seal.seal`. What it raises is told as `{"unsealed": [MESSAGE]}`.
    """
    cpu_seconds, memory, stack, longest, count, *seeds = sys.argv[1:]
    try:
        import _quickjs  # its own wrapper, `quickjs`, starts a thread

        # What the engine sets up once needs more system calls than programs do.
        context = _quickjs.Context()
        layers = seal(cpu_seconds=float(cpu_seconds), memory=int(memory))
    except Exception as error:
        _write(f'{{"unsealed":[{_quoted(str(error))}]}}')
        os._exit(1)
    _write(f'{{"sealed":[{",".join(map(_quoted, layers))}]}}')
    ends: list[str] = []

    def say(*given: object) -> str:
        # An exception here would go through the engine.
        try:
            text = given[0] if len(given) == 1 else None
            if not isinstance(text, str) or len(text) > int(longest) or "\n" in text:
                return '[false,"this is no call"]'
            _write(text)
            return _line()
        except MemoryError:
            return '[false,"out of memory"]'

    def end(*given: object) -> None:
        ends.append(f"{given[0]}")

    try:
        parse = context.eval("JSON.parse")
        *sources, entry = [parse(_line()) for _ in range(int(count) + 1)]
        context.set_memory_limit(int(memory))
        context.set_max_stack_size(int(stack))
        context.add_callable("__say", say)
        context.add_callable("__end", end)
        wrapper = WRAPPER.replace("LONGEST", longest).replace("SEEDS", ",".join(seeds))
        run = context.eval(wrapper)
        for source in sources:
            # The value of a script is of no use, and not every string can become Python's.
            context.eval(f"{source}\n;0")
        run(context.eval(f"(async () => {{ await ({entry}\n); }})"))
        while context.execute_pending_job():
            pass
    except MemoryError:
        ends.append(_end("InternalError: out of memory"))
    except Exception as error:
        ends.append(_end(str(error)))
    _write(ends[-1] if ends else '{"unsettled":[]}')
    os._exit(0)


def _end(text: str) -> str:
    text, _, stack = text[:4000].partition("\n")
    return f'{{"end":[{_quoted(text)},{_quoted(stack)}]}}'


def _line() -> str:
    """The next line of standard input; the process ends with it."""
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        os._exit(0)
    return line.decode()


def _write(text: str) -> None:
    data = f"{text}\n".encode()
    while data:
        data = data[os.write(1, data) :]


def _quoted(text: str) -> str:
    """A text as a string of JSON, every character escaped; rare ones become a sign for unknown."""
    return '"' + "".join(f"\\u{min(ord(c), 0xFFFD):04x}" for c in text) + '"'
