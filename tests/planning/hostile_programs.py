"""Programs that try to leave the sandbox, to hang it or to lie, and how each must end.

A program calls `escaped` when it has what it must not have; the tests fail then. A verdict is the
end of a program: None, one of the sentences below, or the beginning of an error.
"""

from llm_planning.execution import sandbox

LONG, LARGE, DEEP = sandbox._TOO_LONG, sandbox._TOO_LARGE, sandbox._TOO_DEEP
UNSETTLED, LEFT, CRASHED = sandbox._UNSETTLED, sandbox._LEFT, sandbox._CRASHED
NO_ERROR, NOTHING = sandbox._NO_ERROR, sandbox._NOTHING
MEMORY_ENDS = (LARGE, NOTHING, NO_ERROR)
CALLS = "The program made more than 20 calls and was stopped."

PRELUDE = """
const [mine, escaped, bot] = (() => {
  const call = globalThis.__call;
  delete globalThis.__call;
  return [
    async (bot, ...values) => call("mine", values),
    (what) => call("escaped", [String(what)]),
    { inventory: { log: 1 } },
  ];
})();
"""

ENTRY = "main(bot)"

LOOPS = {
    "for": ("for (;;);", LONG),
    "loop that catches": ("for (;;) { try { throw 1 } catch {} }", LONG),
    "iterator without end": (
        "for (const x of { [Symbol.iterator]: () => ({ next: () => ({ done: false }) }) });",
        LONG,
    ),
    "microtasks": (
        "const f = () => Promise.resolve().then(f); await f();",
        (LONG, LARGE, UNSETTLED),
    ),
    "queue of microtasks": ("const f = () => queueMicrotask(f); f();", LONG),
    "proxy": ("new Proxy({}, { get() { for (;;); } }).x;", LONG),
    "toJSON": ("await mine(bot, { toJSON() { for (;;); } });", LONG),
    "map": ("Array.from({ length: 1e9 }, (_, i) => i & 1).length;", (LONG, LARGE)),
    "inner loop of the engine": (
        "Array.prototype.includes.call({ length: 2 ** 53 - 1 }, 1);",
        LONG,
    ),
    "big integers": ("let x = 3n; for (;;) x = (x * x) % (2n ** 4000n);", LONG),
    "modular power": ("(3n ** 200000n) ** 50n;", (LONG, LARGE, "RangeError")),
    "error that never tells": (
        "throw { get message() { for (;;); }, toJSON() { for (;;); } };",
        LONG,
    ),
    "error with a slow name": (
        "const e = new Error('x'); e.toString = () => { for (;;); }; throw e;",
        LONG,
    ),
    "stack that never ends": (
        "Error.prepareStackTrace = () => { for (;;); }; throw new Error('x');",
        "Error: x",
    ),
}

REGEX_AND_STRINGS = {
    "regex, nested": ("/^(a+)+$/.test('a'.repeat(60) + 'b');", LONG),
    "regex, many groups": ("new RegExp('('.repeat(1e5) + ')'.repeat(1e5));", "SyntaxError"),
    "regex, many repeats": (
        "new RegExp('(?:a{1000}){1000}{1000}').test('a');",
        ("SyntaxError", None, LARGE, LONG),
    ),
    "string doubled": ("let s = 'x'; for (;;) s += s;", (LARGE, "InternalError: string too long")),
    "string repeated": ("'x'.repeat(2 ** 28).length;", LARGE),
    "string too long": ("'x'.repeat(2 ** 30);", "RangeError"),
    "strings joined": ("new Array(2 ** 25).join('0123456789');", (LARGE, LONG, "RangeError")),
    "numbers as text": ("(2n ** 2000000n).toString().length;", "RangeError: BigInt is too large"),
    "JSON text": ("JSON.stringify(new Array(1e7).fill('0123456789'));", (LARGE, LONG)),
    "indented JSON": (
        "let o = 1; for (let i = 0; i < 3000; i++) o = [o]; JSON.stringify(o, null, 10);",
        (LARGE, DEEP),
    ),
}

MEMORY = {
    "array": ("const a = []; for (;;) a.push('x'.repeat(1000) + a.length);", (LARGE, NOTHING)),
    "array of a size": ("new Array(2 ** 31).fill(1);", (LARGE, LONG, "RangeError")),
    "buffer": ("new ArrayBuffer(2 ** 30);", LARGE),
    "buffer that grows": (
        "new ArrayBuffer(1, { maxByteLength: 2 ** 30 }).resize(2 ** 30);",
        (LARGE, "RangeError"),
    ),
    "map": ("const m = new Map(); for (let i = 0; ; i++) m.set(i, {});", (*MEMORY_ENDS, LONG)),
    "global names": ("for (let i = 0; ; i++) globalThis['key' + i] = i;", MEMORY_ENDS),
    "jobs": ("for (;;) Promise.resolve().then(() => 0);", (*MEMORY_ENDS, LONG)),
    "functions from text": (
        "const a = []; for (let i = 0; ; i++) a.push(new Function('return ' + i));",
        (*MEMORY_ENDS, LONG),
    ),
    "big integer": ("2n ** (2n ** 40n);", (LARGE, "RangeError")),
    "memory that is caught": (
        "const a = []; for (;;) try { a.push('x'.repeat(1e6) + a.length) } catch { a.length = 0 }",
        LONG,
    ),
    "memory kept while told": (
        "globalThis.a = []; try { for (;;) a.push('x'.repeat(100) + a.length) } finally { a.push(1) }",
        MEMORY_ENDS,
    ),
    "spread": (
        "const a = new Array(1e6).fill(1); Math.max(...a, ...a, ...a);",
        (DEEP, LARGE, "RangeError", None),
    ),
}

DEPTH = {
    "recursion": ("const f = (n) => f(n + 1) + 1; f(0);", DEEP),
    "recursion that is awaited": ("const f = async () => { await f() }; await f();", (DEEP, LARGE)),
    "recursion after waiting": (
        "const f = async () => { await null; await f() }; await f();",
        (*MEMORY_ENDS, LONG),
    ),
    "recursion that catches": (
        "const f = () => { try { f() } catch { f() } }; f();",
        (LONG, DEEP, None),
    ),
    "recursion in a proxy": ("const p = new Proxy({}, { get: (t, k, r) => r[k] }); p.x;", DEEP),
    "recursion of prototypes": (
        "let o = {}; for (let i = 0; i < 1e5; i++) o = Object.create(o); o.x;",
        (None, *MEMORY_ENDS, DEEP),
    ),
    "recursion of sort": ("const f = () => [2, 1].sort(f); f();", DEEP),
    "nested JSON": ("JSON.parse('['.repeat(1e6));", DEEP),
    "nested object as text": (
        "let o = {}; for (let i = 0; i < 3e4; i++) o = { o }; JSON.stringify(o);",
        DEEP,
    ),
    "nested source": ("eval('['.repeat(1e5));", DEEP),
    "nested source of functions": (
        "eval('(()=>'.repeat(1e4) + '1' + ')'.repeat(1e4));",
        (DEEP, "SyntaxError"),
    ),
    "nested argument": (
        "let o = 1; for (let i = 0; i < 2000; i++) o = [o]; await mine(bot, o);",
        DEEP,
    ),
    "long chain of bound functions": (
        "let f = () => 1; for (let i = 0; i < 1e5; i++) f = f.bind(); f();",
        (DEEP, LARGE),
    ),
    "long chain of proxies": (
        "let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); p.x;",
        (DEEP, *MEMORY_ENDS, None),
    ),
}

ESCAPES = {
    "constructor": (
        "const g = mine.constructor('return globalThis')(); if (g.process || g.require || g.__call) escaped('host');",
        None,
    ),
    "constructor of a text": (
        "''.constructor.constructor('return this')().process.exit();",
        "TypeError",
    ),
    "function of an async function": (
        "await mine.constructor('await import(\"os\")')();",
        "ReferenceError",
    ),
    "prototype of objects": (
        "Object.prototype.toString = () => '1'; ({}).__proto__.x = 1; await mine(bot, 1);",
        None,
    ),
    "__proto__ of an argument": ('await mine(bot, JSON.parse(\'{"__proto__": {"x": 1}}\'));', None),
    "toJSON that forges an end": (
        "Object.prototype.toJSON = () => ({ end: null }); await mine(bot, {});",
        "TypeError: arguments",
    ),
    "toJSON of arrays": (
        "Array.prototype.toJSON = () => '],null]\\n{\"end\":null}'; await mine(bot, 1);",
        "TypeError: arguments",
    ),
    "toJSON of texts": ("String.prototype.toJSON = () => ['x']; await mine(bot, 'a');", None),
    "stringify replaced": (
        "JSON.stringify = () => '{\"end\":null}'; await mine(bot, 1); throw new Error('kept');",
        "Error: kept",
    ),
    "parse replaced": (
        "JSON.parse = () => [true, 'forged']; if (await mine(bot, 1) === 'forged') escaped('parse');",
        None,
    ),
    "then replaced": (
        "Promise.prototype.then = function () { return this }; await mine(bot, 1);",
        (None, UNSETTLED),
    ),
    "promise replaced": ("globalThis.Promise = class { then() {} }; await mine(bot, 1);", None),
    "iterator replaced": (
        "Array.prototype[Symbol.iterator] = function* () { yield 9 }; await mine(bot, 1);",
        None,
    ),
    "setters of indices": (
        "Object.defineProperty(Object.prototype, '0', { set() { escaped('setter') }, get() { return true } }); await mine(bot, 1);",
        None,
    ),
    "species": (
        "Promise[Symbol.species] = null; await Promise.resolve(1).then(() => 2);",
        (None, "TypeError"),
    ),
    "error class replaced": (
        "globalThis.Error = function () { for (;;); }; await mine(bot, 'refuse');",
        "Error: this is refused",
    ),
    "hasInstance": (
        "Object.defineProperty(Error, Symbol.hasInstance, { value: () => { throw 1 } }); throw new TypeError('x');",
        (NO_ERROR, "TypeError"),
    ),
    "callers": (
        "const f = function () { return f.caller || arguments.callee.caller }; if (f()) escaped('caller');",
        (None, "TypeError"),
    ),
    "functions of the stack": (
        "Error.prepareStackTrace = (e, sites) => sites.map((site) => site.getFunction());"
        "const found = [];"
        "try { await mine(bot, { toJSON() { found.push(...new Error('x').stack); return 1 } }) } catch {}"
        "for (const f of [...found]) if (typeof f === 'function') escaped(f);"
        "throw new Error('kept');",
        "Error: kept",
    ),
    "host function in a property": (
        "for (const k of Reflect.ownKeys(globalThis)) if (String(k).startsWith('__') && k !== '__proto__') escaped(k);",
        (None,),
    ),
    "global names": (
        "for (const k of ['process', 'require', 'module', 'std', 'os', 'scriptArgs', 'print', 'load', 'Deno', 'fetch', 'XMLHttpRequest', 'Worker', 'setTimeout', 'WebAssembly', 'gc']) if (k in globalThis) escaped(k);",
        None,
    ),
    "clocks": (
        "for (const k of ['Date', 'performance', 'Temporal', 'Intl', 'Atomics', 'SharedArrayBuffer', 'WeakRef', 'FinalizationRegistry']) if (k in globalThis) escaped(k);",
        None,
    ),
    "everything that can be reached": (
        "const seen = new Set(), open = [globalThis, mine, escaped, bot, (function* () {})(), (async function* () {})(), /x/g, 1n, Symbol()];"
        "while (open.length) { const o = open.pop(); if (o === null || o === undefined || seen.has(o)) continue;"
        " seen.add(o); if (typeof o !== 'object' && typeof o !== 'function') { open.push(Object.getPrototypeOf(o)); continue; }"
        " let name = ''; try { name = `${o.name}` } catch {}"
        " if (/^(Date|SharedArrayBuffer|Atomics|WeakRef|now|read|open|exec|getenv|__call|__say|__end)$/.test(name) && o !== RegExp.prototype.exec) escaped(name);"
        " open.push(Object.getPrototypeOf(o));"
        " for (const k of Reflect.ownKeys(o)) { const d = Reflect.getOwnPropertyDescriptor(o, k); open.push(d.value, d.get, d.set); } }"
        "if (seen.size < 500) escaped('nothing was walked');",
        None,
    ),
    "import of a file": ("await import('/etc/passwd');", "ReferenceError: could not load module"),
    "import of os": ("await import('os');", "ReferenceError: could not load module"),
    "import statement in a function": ("eval('import x from \"std\"');", "SyntaxError"),
    "import.meta": ("eval('import.meta.url');", "SyntaxError"),
    "eval elsewhere": (
        "(0, eval)('var leaked = 1'); if (leaked !== 1) throw new Error('x');",
        None,
    ),
    "global object frozen": (
        "Object.freeze(globalThis); Object.freeze(Object.prototype); await mine(bot, 1);",
        None,
    ),
    "global object emptied": (
        "for (const k of Reflect.ownKeys(globalThis)) try { delete globalThis[k] } catch {} await mine(bot, 1);",
        None,
    ),
    "with and proxy": (
        "new Function('p', 'with (p) { x; y; __call }')(new Proxy({}, { has: () => true, get: (t, k) => k === Symbol.unscopables ? undefined : 1 }));",
        None,
    ),
    "world in the parent": (
        "bot.inventory.log = 64; if ((await mine(bot, 1)).inventory.log !== 1) escaped('world');",
        None,
    ),
}

VALUES = {
    "NaN": ("await mine(bot, NaN);", "TypeError: NaN cannot be an argument"),
    "infinity": (
        "await mine(bot, { x: [-Infinity] });",
        "TypeError: -Infinity cannot be an argument",
    ),
    "big integer": ("await mine(bot, 10n);", "TypeError"),
    "function": ("await mine(bot, () => 1);", "TypeError: a function cannot be an argument"),
    "symbol": ("await mine(bot, Symbol('x'));", "TypeError: a symbol cannot be an argument"),
    "cycle": ("const o = {}; o.o = o; await mine(bot, o);", "TypeError: circular reference"),
    "long text": ("await mine(bot, 'x'.repeat(1e5));", "RangeError: a call has"),
    "long text of signs": (
        "await mine(bot, '\\u{1F600}'.repeat(8100)); await mine(bot, '\\0'.repeat(2000));",
        None,
    ),
    "many arguments": ("await mine(bot, ...new Array(10000).fill(1));", "RangeError: a call has"),
    "half a character": ("await mine(bot, '\\ud800');", "TypeError: half a character"),
    "half a character in a key": (
        "await mine(bot, { '\\udc00': 1 });",
        "TypeError: half a character",
    ),
    "half a character in an error": ("throw new Error('\\ud800');", "Error: \ufffd"),
    "lines in a text": (
        "await mine(bot, 'a\\n{\"end\":null}\\r\\u2028'); throw new Error('kept');",
        "Error: kept",
    ),
    "the character 0": ("await mine(bot, '\\0'); throw new Error('a\\0b');", "Error: a\\x00b"),
    "colours in an error": (
        "throw new Error('\\x1b[31mred\\n{\"end\":null}');",
        "Error: \\x1b[31mred\\n",
    ),
    "long error": ("throw new Error('x'.repeat(1e5));", "Error: xxxx"),
    "no argument": ("await mine(bot, undefined, null); await mine();", None),
    "thrown null": ("throw null;", NOTHING),
    "thrown undefined": ("throw undefined;", NOTHING),
    "thrown text": ("throw 'nothing to mine';", "nothing to mine"),
    "thrown object": ("throw { reason: 'lava' };", '{"reason":"lava"}'),
    "thrown symbol": ("throw Symbol('x');", NO_ERROR),
    "thrown proxy": (
        "throw new Proxy({}, { get() { throw 1 }, getPrototypeOf() { throw 1 } });",
        NO_ERROR,
    ),
    "thrown function": ("throw escaped;", NO_ERROR),
    "thrown revoked proxy": (
        "const p = Proxy.revocable({}, {}); p.revoke(); throw p.proxy;",
        NO_ERROR,
    ),
    "error without a text": ("throw new Error({ toString() { throw 1 } });", "1"),
    "refused": ("await mine(bot, 'refuse');", "Error: this is refused (line 2)"),
    "refused and caught": (
        "try { await mine(bot, 'refuse') } catch (e) { if (e.message !== 'this is refused') escaped(e) }",
        None,
    ),
    "many calls": ("for (;;) await mine(bot, 1);", CALLS),
    "many calls at once": (
        "await Promise.all(Array.from({ length: 100 }, () => mine(bot, 1)));",
        CALLS,
    ),
    "many refused calls": ("for (;;) try { await mine(bot, 'refuse') } catch {}", CALLS),
    "many calls that nobody awaits": ("for (;;) mine(bot, 1);", CALLS),
    "result that is huge": ("return 'x'.repeat(1e6);", None),
    "result with a then": ("return { then(f) { f('x'.repeat(1e6)) } };", None),
}

PROMISES = {
    "never": ("await new Promise(() => 0);", UNSETTLED),
    "never, after a call": ("await mine(bot, 1); await new Promise(() => 0);", UNSETTLED),
    "never, of itself": ("const p = (async () => { await null; await p })(); await p;", UNSETTLED),
    "thenable that never answers": ("await { then() {} };", UNSETTLED),
    "generator that never goes on": (
        "for await (const x of { [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => 0) }) });",
        UNSETTLED,
    ),
    "rejected": ("await Promise.reject(new TypeError('x'));", "TypeError: x"),
    "error in a microtask": ("queueMicrotask(() => { throw new Error('late') });", "Error: late"),
    "error in a getter of then": (
        "await { get then() { throw new Error('then') } };",
        "Error: then",
    ),
    "disposed": (
        "await using x = { async [Symbol.asyncDispose]() { await new Promise(() => 0) } };",
        (UNSETTLED, "SyntaxError"),
    ),
}

# Whole scripts, in place of a body of `main`.
SCRIPTS = {
    "no function": ("1", "ReferenceError: main is not defined"),
    "syntax": ("async function main(bot) {\n  let = = 1;\n}", "SyntaxError"),
    "unfinished": ("async function main(bot) {", "SyntaxError"),
    "the character 0": ("async function main(bot) {} \0 escaped(1)", "SyntaxError"),
    "half a character": ("async function main(bot) {} '\ud800'", None),
    "mark of byte order": ("\ufeffasync function main(bot) {}", None),
    "last value": ("async function main(bot) {}\n'\\ud800'", None),
    "loop before main": ("for (;;);", LONG),
    "error before main": ("\nthrow new RangeError('early')", "RangeError: early (line 2)"),
    "import": ("import { exec } from 'os';", "SyntaxError"),
    "top-level await": ("await 1;", "SyntaxError"),
    "main is a proxy": ("const main = new Proxy(function () {}, { apply() { for (;;); } });", LONG),
    "main is a getter": (
        "Object.defineProperty(globalThis, 'main', { get() { for (;;); } });",
        LONG,
    ),
    "prelude declared anew": ("const mine = 1; async function main() {}", "SyntaxError"),
    "many lines": (
        "\n" * 100_000 + "async function main(bot) { x }",
        "ReferenceError: x is not defined (line 100001)",
    ),
    "much source": ("async function main(bot) {}" + ";1" * 500_000, (None, LARGE)),
    "much source in brackets": ("(" * 200_000, DEEP),
    "strict": ("'use strict'; async function main(bot) { undeclared = 1 }", "ReferenceError"),
}

FILES = {
    "open": "escaped(open('/etc/passwd').read())",
    "open by number": "escaped(os.open('/proc/self/mem', os.O_RDWR))",
    "create": "os.open(CANARY, os.O_CREAT | os.O_WRONLY); escaped('created')",
    "delete": "os.unlink(CANARY); escaped('deleted')",
    "rename": "os.rename(CANARY, CANARY + '.moved'); escaped('renamed')",
    "truncate": "os.truncate(CANARY, 0); escaped('truncated')",
    "link": "os.symlink('/etc/passwd', CANARY + '.link'); escaped('linked')",
    "folder": "os.mkdir(CANARY + '.folder'); escaped('folder')",
    "list": "escaped(os.listdir('/'))",
    "status": "escaped(os.stat('/etc/passwd'))",
    "rights": "os.chmod(CANARY, 0o777); escaped('rights')",
    "change folder": "os.chdir('/tmp'); escaped('folder')",
    "change root": "os.chroot('/tmp'); escaped('root')",
    "mount": "escaped(libc.mount(b'x', b'/mnt', b'tmpfs', 0, None))",
    "file in memory": "escaped(os.memfd_create('x'))",
    "duplicate": "escaped(os.dup(1))",
    "duplicate onto": "escaped(os.dup2(1, 2))",
    "pipe": "escaped(os.pipe())",
    "poll": "escaped(libc.epoll_create1(0))",
    "event": "escaped(libc.eventfd(0, 0))",
    "watch": "escaped(libc.inotify_init1(0))",
    "read another descriptor": "escaped(os.read(2, 1))",
    "write another descriptor": "escaped(os.write(2, b'x'))",
    "terminal": "escaped(libc.ioctl(0, 0x5412, b'x'))",
    "control": "escaped(libc.fcntl(0, 8, os.getpid()))",
}

PROCESSES = {
    "fork": "escaped(os.fork())",
    "system": "escaped(os.system('true'))",
    "execute": "os.execv('/bin/sh', ['sh', '-c', 'true'])",
    "spawn": "escaped(os.posix_spawn('/bin/true', ['true'], {}))",
    "clone": "escaped(libc.syscall(56, 17, 0, 0, 0, 0))",
    "thread": "threading.Thread(target=print).start(); escaped('thread')",
    "trace the parent": "escaped(libc.ptrace(16, os.getppid(), 0, 0))",
    "trace itself": "escaped(libc.ptrace(0, 0, 0, 0))",
    "kill the parent": "os.kill(os.getppid(), 9); escaped('killed')",
    "kill everyone": "os.kill(-1, 9); escaped('killed')",
    "kill the group": "os.killpg(0, 15); escaped('killed')",
    "signal by descriptor": "escaped(os.pidfd_open(1))",
    "read the parent": "escaped(libc.process_vm_readv(1, None, 0, None, 0, 0))",
    "be root": "os.setresuid(0, 0, 0); escaped('root')",
    "groups": "os.setgroups([0]); escaped('groups')",
    "namespaces": "escaped(libc.unshare(0x10000000))",
    "enter namespaces": "escaped(libc.setns(0, 0))",
    "privileges": "escaped(libc.prctl(38, 0, 0, 0, 0))",
    "dump": "escaped(libc.prctl(4, 1, 0, 0, 0))",
    "capabilities": "escaped(libc.capset(None, None))",
    "personality": "escaped(libc.personality(0x0400000))",
    "priority": "os.nice(-5); escaped('priority')",
    "restart": "escaped(libc.reboot(0))",
    "name": "socket.sethostname('x'); escaped('name')",
    "clock": "time.clock_settime(time.CLOCK_REALTIME, 0); escaped('clock')",
}

NETWORK_AND_MEMORY = {
    "tcp": "socket.create_connection(('127.0.0.1', 9)); escaped('tcp')",
    "udp": "escaped(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))",
    "local socket": "escaped(socket.socket(socket.AF_UNIX))",
    "socket pair": "escaped(socket.socketpair())",
    "netlink": "escaped(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))",
    "send over the socket": "escaped(libc.send(1, b'x', 1, 0))",
    "resolve": "escaped(socket.getaddrinfo('example.org', 80))",
    "executable memory": "escaped(mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC))",
    "writable and executable": "escaped(mmap.mmap(-1, 4096, prot=7))",
    "memory made executable": (
        "libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int];"
        "escaped(libc.mprotect(ctypes.addressof(ctypes.c_char.from_buffer(page)), 4096, 5))"
    ),
    "memory made executable by key": "escaped(libc.pkey_mprotect(None, 4096, 5, -1))",
    "shared memory": "escaped(libc.shmget(0, 4096, 0o1600))",
    "messages": "escaped(libc.msgget(0, 0o1600))",
    "locked memory": "escaped(libc.mlockall(3))",
    "ring of the kernel": "escaped(libc.syscall(425, 8, None))",
    "program in the kernel": "escaped(libc.syscall(321, 0, None, 0))",
    "faults": "escaped(libc.syscall(323, 0))",
    "performance": "escaped(libc.syscall(298, None, 0, -1, -1, 0))",
    "keys": "escaped(libc.syscall(248, b'user', b'x', b'y', 1, -3))",
    "calls of the other kind": "escaped(libc.syscall(ctypes.c_long(0x40000000 | 39)))",
    "no call at all": "escaped(libc.syscall(ctypes.c_long(-1)))",
    "new filter": "escaped(libc.syscall(317, 1, 0, None))",
    "new Landlock": "escaped(libc.syscall(444, None, 0, 1))",
    "more memory": "resource.setrlimit(resource.RLIMIT_AS, (-1, -1)); escaped('limit')",
    "limits": "escaped(resource.getrlimit(resource.RLIMIT_AS))",
    "timer off": "signal.setitimer(signal.ITIMER_PROF, 0); escaped('timer')",
    "timer ignored": "signal.signal(signal.SIGPROF, signal.SIG_IGN); escaped('timer')",
    "timer blocked": "signal.pthread_sigmask(signal.SIG_BLOCK, [27]); escaped('timer')",
    "alarm": "escaped(signal.alarm(1))",
    "sleep": "time.sleep(1); escaped('sleep')",
}

# What a taken-over engine says and does without leaving; its own verdict each.
LIES = {
    "spin": ("while True: pass", LONG),
    "hang": ("sys.stdin.buffer.readline()", LONG),
    "memory": ("bytearray(1 << 30)", "MemoryError"),
    "memory bit by bit": ("kept = []\nwhile True: kept.append(bytearray(1 << 16))", ("MemoryError", LONG)),
    "crash": ("ctypes.string_at(1)", CRASHED),
    "leave": ("os._exit(0)", LEFT),
    "leave with a code": ("os._exit(3)", LEFT),
    "no JSON": ("tell('hello')", LEFT),
    "bytes": ("os.write(1, bytes(range(256)) + b'\\n')", LEFT),
    "empty line": ("tell('')", LEFT),
    "empty lines": ("while True: os.write(1, b'\\n' * 4096)", LEFT),
    "long line": ("while True: os.write(1, b'x' * 65536)", LEFT),
    "half a line": ("os.write(1, b'[\"mine\",'); os._exit(0)", LEFT),
    "deep line": ("tell('[' * 60000)", LEFT),
    "deep arguments": ("tell('[\"mine\",' + '[' * 20000 + ']' * 20000 + ']')", LEFT),
    "long number": ("tell('[\"mine\",[' + '9' * 20000 + ']]')", LEFT),
    "infinite number": ("tell('[\"mine\",[1e999]]')", LEFT),
    "no number": ("tell('[\"mine\",[NaN]]')", LEFT),
    "half a character": ("tell('[\"mine\",[\"\\\\ud800\"]]')", LEFT),
    "name of a number": ("tell('[1,[]]')", LEFT),
    "arguments by name": ("tell('[\"mine\",{}]')", LEFT),
    "three parts": ("tell('[\"mine\",[],1]')", LEFT),
    "another message": ("tell('{\"sealed\":[]}')", LEFT),
    "forged refusal": ("tell('{\"unsealed\":[\"x\"]}')", LEFT),
    "forged end": ("tell('{\"end\":null}')\nwhile True: tell('[\"escaped\",[]]')", None),
    "forged error": ("tell('{\"end\":[\"' + 'x' * 9000 + '\",\"\"]}')", "xxxx"),
    "error of a wrong kind": ("tell('{\"end\":[1,2]}')", LEFT),
    "forged line": ("tell('{\"end\":[\"Error\",\"<input>:' + '9' * 5000 + '\"]}')", "Error"),
    "calls without reading": ("while True: tell('[\"mine\",[1]]')", CALLS),
    "calls that never read a long answer": ("tell('[\"mine\",[\"long\"]]')\nwhile True: pass", LONG),
    "calls ahead": ("os.write(1, b'[\"mine\",[1]]\\n' * 5); [sys.stdin.buffer.readline() for _ in range(5)]", None),
    "another name": ("tell('[\"' + 'x' * 9000 + '\",[]]'); tell(json.dumps(['said', [sys.stdin.buffer.readline().decode()]])); sys.stdin.buffer.readline()", None),
    "closed socket": ("libc.close(1)", LEFT),
}  # fmt: skip


def javascript():
    """Every JavaScript program: name -> (source, verdict)."""
    groups = {
        "loop": LOOPS,
        "text": REGEX_AND_STRINGS,
        "memory": MEMORY,
        "depth": DEPTH,
        "escape": ESCAPES,
        "value": VALUES,
        "promise": PROMISES,
    }
    for kind, group in groups.items():
        for name, (body, expected) in group.items():
            verdict = expected
            if kind == "memory":
                # A slow machine needs longer to fill it than a program may take.
                verdict = (*(expected if isinstance(expected, tuple) else (expected,)), LONG)
            yield f"{kind}: {name}", f"async function main(bot) {{\n{body}\n}}", verdict
    for name, (source, verdict) in SCRIPTS.items():
        yield f"script: {name}", source, verdict


def python():
    """Every attack from behind the seal: name, source, verdict."""
    for group in (FILES, PROCESSES, NETWORK_AND_MEMORY):
        for name, source in group.items():
            yield f"behind the seal: {name}", source, LEFT
    for name, (source, verdict) in LIES.items():
        yield f"behind the seal: {name}", source, verdict
