#!/usr/bin/python3
"""The cases from public reports whose area is containers, files, images, snapshots, lifetime, limits, API or command line."""
import base64
import json
import os
import socket
import threading
import time

from daemon import Daemon, shared
from harness import check, equal, one_of, main, test
from oci import Entry, Layer, RawLayer, image, layout, payload, skeleton, try_import, up


@test('C001 here-documents: in single execs and in one kept shell session: byte for byte, the next command works, within 3 s')
def c001(w):
    d = shared(w)
    n = d.start()
    first = "mkdir -p /workspace && cat > /workspace/menu.txt <<'LIST_END'\nsoup $HOME \"5\"\n  rice `date`\nLIST_END\n"
    second = 'cat /workspace/menu.txt; wc -l < /workspace/menu.txt'
    third = 'cat <<A; cat <<-B\none\nA\n\ttwo\nB\n'
    began = time.monotonic()
    r = d.sh(n, first)
    equal((r['exitCode'], r['stdout']), (0, ''), 'first')
    check(time.monotonic() - began < 3, 'slow')
    r = d.sh(n, second)
    equal((r['exitCode'], r['stdout'].replace(' 2\n', '2\n')), (0, 'soup $HOME "5"\n  rice `date`\n2\n'), 'second')
    equal((d.sh(n, third)['stdout']), 'one\ntwo\n', 'third')
    # the same three in one shell that stays open, fed by its stdin
    x = d.exec(n, ['/bin/sh'], wait=False, stdin='pipe').json
    out = d.stream(f'/v1/containers/{n}/exec/{x["id"]}/output', timeout=10)

    def send(text, eof=False):
        r = d.request('PUT', f'/v1/containers/{n}/exec/{x["id"]}/stdin', text.encode(), eof='true' if eof else 'false')
        equal(r.status, 204, f'stdin: {r}')

    def until(marker):
        got, end = '', time.monotonic() + 3
        while marker not in got:
            check(time.monotonic() < end, 'no answer within 3 s', got)
            got += json.loads(out.readline()).get('text', '')
        return got
    d.sh(n, 'rm /workspace/menu.txt')
    send(first + 'echo done-$?\n')
    equal(until('done-0\n'), 'done-0\n', 'session, first')
    send(second + '; echo done-$?\n')
    equal(until('done-0\n').replace(' 2\n', '2\n'), 'soup $HOME "5"\n  rice `date`\n2\ndone-0\n', 'session, second')
    send(third + 'echo done-$?\n')
    equal(until('done-0\n'), 'one\ntwo\ndone-0\n', 'session, third')
    send('exit 4\n', eof=True)
    rest = [json.loads(l) for l in out.read().splitlines()]
    equal(rest[-1]['exitCode'], 4, 'session, end')
    out.connection_kept.close()
    d.rm(n)


@test('C003 command not found: 127 and its name by shell, 126 for what is not executable, an error that names it without a shell')
def c003(w):
    r = w.sh('frobnicate-9 --version')
    equal((r.code, r.out), (127, b''), f'shell: {r}')
    check('frobnicate-9' in r.errtext and 'not found' in r.errtext, 'stderr', r)
    for argv in (['/etc/hostname'],):
        r = w.run(argv)
        equal((r.code, r.out), (126, b''), f'not executable: {r}')
        check('/etc/hostname' in r.errtext, 'stderr', r)
    r = w.run(['frobnicate-9', '--version'])
    equal((r.code, r.out), (127, b''), f'no shell: {r}')
    check('frobnicate-9' in r.errtext and 'not found' in r.errtext, 'stderr', r)
    d = shared(w)
    n = d.start()
    r = d.exec(n, ['frobnicate-9', '--version'])
    check(400 <= r.status < 500 and 'frobnicate-9' in r.json['error']['message'], f'API: {r}')
    r = w.tool('exec', n, '--', 'frobnicate-9', env={'CLOISTER_SOCKET': d.socket})
    equal(r.code, 127, f'exec: {r}')
    check('frobnicate-9' in r.errtext, 'stderr', r)
    r = w.tool('exec', n, '--', '/etc/hostname', env={'CLOISTER_SOCKET': d.socket})
    equal(r.code, 126, f'exec: {r}')
    d.rm(n)


@test('C005 a background child holds the output pipe: the call is back within 4 s with what was written; the next one within 2 s')
def c005(w):
    d = shared(w)
    n = d.start()
    r = d.exec(n, ['/bin/sh', '-c', 'sleep 25 & echo launched'], timeoutMs=2000)
    equal(r.status, 200, f'{r}')
    check(r.seconds < 4, f'{r.seconds:.1f} s')
    equal(r.json['stdout'], 'launched\n', 'output')
    one_of((r.json['exitCode'], r.json['reason']), ((0, 'exit'), (124, 'timeout'), (137, 'timeout')), f'{r}')
    r = d.exec(n, ['/bin/echo', 'next'])
    check(r.seconds < 2 and r.json['stdout'] == 'next\n', f'{r}')
    d.rm(n)
    r = w.sh('sleep 25 & echo launched', ['--timeout', '2s'])
    check(r.code in (0, 124) and r.text == 'launched\n' and r.seconds < 4, f'run: {r}')


@test('C007 truncating, writing and creating through a read-only share: refused, content unchanged')
def c007(w):
    target = '/usr/share/common-licenses'
    name = 'GPL-3'
    before = open(f'{target}/{name}').read()
    r = w.py(r'''
R["tries"] = {}
for name, flags in (("trunc", os.O_RDONLY | os.O_TRUNC), ("write", os.O_WRONLY), ("create", os.O_RDONLY | os.O_CREAT), ("truncwrite", os.O_WRONLY | os.O_TRUNC),
                    ("append", os.O_WRONLY | os.O_APPEND), ("tmpfile", os.O_RDWR | os.O_TMPFILE)):
    path = C["dir"] if name == "tmpfile" else C["dir"] + ("/new.txt" if name == "create" else "/" + C["name"])
    R["tries"][name] = attempt(lambda: os.close(os.open(path, flags)))
R["truncate"] = attempt(os.truncate, C["dir"] + "/" + C["name"], 0)
R["text"] = slurp(C["dir"] + "/" + C["name"])
''', facts={'dir': target, 'name': name})
    check(set(r['tries'].values()) | {r['truncate']} <= {'EROFS', 'EACCES'}, 'not refused', r['tries'], r['truncate'])
    equal(r['text'], before, 'inside')
    equal(open(f'{target}/{name}').read(), before, 'on the host')


C009 = [[Entry.dir('cache'), Entry.file('cache/a.txt', 'old'), Entry.file('conf', 'x')], [Entry.file('.wh.cache'), Entry.file('.wh.conf')],
        [Entry.dir('cache'), Entry.file('cache/b.txt', 'new'), Entry.dir('conf'), Entry.file('conf/c.txt', 'y')]]


@test('C009 deleted by one layer, made again by a later one: only the last files, also after a restart and from a snapshot')
def c009(w):
    d = shared(w)
    name = image(w, [skeleton()] + C009)

    def seen(container):
        r = d.exec(container, ['/box', 'find', '/']).json['stdout'].splitlines()
        return sorted(l for l in r if 'cache' in l or 'conf' in l)
    want = ['d /cache', 'd /conf', 'f /cache/b.txt', 'f /conf/c.txt']
    n = d.box(name)
    equal(seen(n), want, 'fresh')
    d.exec(n, ['/box', 'put', '/mark', 'x'])
    s = d.request('POST', f'/v1/containers/{n}/snapshots', {})
    equal(s.status, 201, f'{s}')
    d.request('POST', f'/v1/containers/{n}/destroy', {})
    equal(d.request('POST', f'/v1/containers/{n}/start', {}).status, 200, 'restart')
    equal(seen(n), want, 'after a restart')
    m = d.box(name, snapshot=s.json['id'])
    equal(seen(m), want, 'from the snapshot')
    equal(d.exec(m, ['/box', 'cat', '/mark']).json['stdout'], 'x', 'the snapshot is the one')
    d.rm(n, m)
    d.request('DELETE', '/v1/snapshots/' + s.json['id'])


@test('C011 path tricks in a layer: nothing outside; refused by name or placed inside; a link that only looks like an escape is kept')
def c011(w):
    tricks = [Entry.file(up(w.outside) + '/up.txt', 'a'), Entry.link('door', w.outside), Entry.file('door/in.txt', 'b'), Entry.file('/abs.txt', 'c'),
              Entry.dir('usr'), Entry.dir('usr/lib'), Entry.file('usr/lib/x.so', 'd'), Entry.link('lib64', '../../../usr/lib'),
              Entry.hard('peek', '../../../../../../etc/hostname')]
    name, r = try_import(w, layout([Layer(skeleton() + tricks)]))
    if r.code == 0:
        equal(w.run(['/box', 'cat', '/abs.txt'], ['--image', name]).text, 'c', 'abs.txt')
        check(socket.gethostname() not in w.run(['/box', 'cat', '/peek'], ['--image', name]).text, 'the host\'s name')
    else:
        equal(r.code, 125, f'{r}')
        check('up.txt' in r.errtext or '..' in r.errtext, 'the bad entry is not named', r)
    w.check_canaries()
    name, r = try_import(w, layout([Layer(skeleton() + tricks[4:8])]))
    equal(r.code, 0, f'the honest one: {r}')
    equal(w.run(['/box', 'readlink', '/lib64'], ['--image', name]).text, '../../../usr/lib\n', 'readlink')
    equal(w.run(['/box', 'cat', '/lib64/x.so'], ['--image', name]).text, 'd', 'through it')


@test('C019 exclude patterns of one and of several parts: what they match is left out, everything else comes back')
def c019(w):
    d = shared(w)
    n = d.start()
    d.sh(n, r'''cd /workspace && mkdir -p .tools/mods/a/vendor .tools/mods/b/deep/vendor vendor src empty
for f in .tools/state.json .tools/mods/a/page.md .tools/mods/a/vendor/m.js .tools/mods/b/deep/vendor/n.js vendor/x.js src/main.js src/vendor_notes.txt run.sh; do printf %s $f > $f; done
ln -s ../.tools/state.json src/link; chmod 750 run.sh''')
    s = d.request('POST', f'/v1/containers/{n}/snapshots', {'dir': '/workspace', 'name': 'work', 'exclude': ['vendor', '.tools/mods/*/vendor']})
    equal(s.status, 201, f'{s}')
    m = d.start(mounts=[{'snapshot': s.json['id'], 'target': '/workspace'}])
    text = d.sh(m, 'cd /workspace && find . | sort; stat -c %a run.sh; readlink src/link; cat src/link src/main.js .tools/mods/a/page.md')['stdout']
    lines = text.splitlines()
    for p in ('./.tools/state.json', './.tools/mods/a/page.md', './src/main.js', './src/vendor_notes.txt', './src/link', './empty', './run.sh', './.tools/mods/b/deep'):
        check(p in lines, p + ' is missing', lines)
    for p in ('./vendor', './vendor/x.js', './.tools/mods/a/vendor'):
        check(p not in lines, p + ' came back', lines)
    check('750' in lines and '../.tools/state.json' in lines, 'mode and link', lines)
    check(text.endswith('.tools/state.jsonsrc/main.js.tools/mods/a/page.md'), 'contents', text[-120:])
    d.rm(n, m)
    d.request('DELETE', '/v1/snapshots/' + s.json['id'])


@test('C021 idle timer of 2 s against a long exec, a dripping stream and a slow stdin: no stop while one is open; afterwards it stops by itself')
def c021(w):
    d = shared(w)
    n = d.start(name='idle')
    check(d.request('PUT', f'/v1/containers/{n}/inactivity-timeout', {'ms': 2000}).status < 300, 'setting it')
    d.sh(n, 'echo boot-$$ > /tmp/boot')
    boot = d.sh(n, 'cat /tmp/boot')['stdout']
    equal(d.sh(n, 'sleep 5; echo done')['stdout'], 'done\n', 'long exec')
    equal(d.sh(n, 'cat /tmp/boot')['stdout'], boot, 'same container')
    x = d.sh(n, 'for i in 1 2 3 4 5; do echo tick; sleep 1; done', wait=False)
    r = d.stream(f'/v1/containers/{n}/exec/{x["id"]}/output')
    text = ''.join(json.loads(l).get('text', '') for l in r.read().splitlines())
    r.connection_kept.close()
    equal(text, 'tick\n' * 5, 'drip')
    equal(d.sh(n, 'cat /tmp/boot')['stdout'], boot, 'same container')
    time.sleep(5)
    r = d.request('GET', '/v1/containers/' + n).json
    equal(r['state'], 'stopped', f'after the silence: {r}')
    check('inactiv' in r['stop']['reason'], 'reason', r['stop'])
    equal(d.request('POST', f'/v1/containers/{n}/start', {}).status, 200, 'again')
    equal(d.sh(n, 'cat /tmp/boot 2>&1')['exitCode'], 1, 'a fresh one')
    d.rm(n)


@test('C045 output limit: never more than it, cut between characters and marked; what was flushed before a timeout is there')
def c045(w):
    d = shared(w)
    n = d.start()
    before = d.rss_kib()
    py = lambda code: ['/usr/bin/python3', '-c', code]
    r = d.exec(n, py("print('k' * 6000)"), outputLimit=4096).json
    check(len(r['stdout']) <= 4096 and set(r['stdout']) <= set('k\n') and r['stdoutTruncated'], '1', len(r['stdout']))
    equal(r['stdoutBytes'], 6001, '1: counted')
    r = d.exec(n, py("print('k' * 4095)"), outputLimit=4096).json
    equal((r['stdout'], r['stdoutTruncated']), ('k' * 4095 + '\n', False), '2')
    r = d.exec(n, ['/bin/sh', '-c', 'head -c 5000 /dev/zero | tr "\\0" e >&2; echo out'], outputLimit=4096).json
    equal(r['stdout'], 'out\n', '3')
    check(len(r['stderr']) <= 4096 and r['stderrTruncated'] and not r['stdoutTruncated'], '3', len(r['stderr']))
    r = d.exec(n, ['yes'], timeoutMs=3000, outputLimit=4096)
    check(r.seconds < 5 and len(r.json['stdout']) <= 4096 and r.json['reason'] == 'timeout', '4', r)
    check(d.rss_kib() - before < (256 << 10 if w.sanitized() else 32 << 10), f'4: the daemon grew by {d.rss_kib() - before} KiB')
    r = d.exec(n, ['/bin/sh', '-c', 'echo first; sleep 60; echo never'], timeoutMs=1000, outputLimit=4096).json
    equal((r['stdout'], r['reason']), ('first\n', 'timeout'), '5')
    r = d.exec(n, py("print('ĉ' * 3000)"), outputLimit=4096).json
    check(len(r['stdout'].encode()) <= 4096 and set(r['stdout']) <= set('ĉ\n') and r['stdoutTruncated'], '6', r['stdout'][-20:])
    check(len(r['stdout'].encode()) > 4000, '6: little is left', len(r['stdout']))
    d.rm(n)


@test('C047 output that is not ASCII or not UTF-8, NUL, characters split between pieces, names and values: exact in JSON')
def c047(w):
    d = shared(w)
    n = d.start()
    r = d.exec(n, ['/usr/bin/printf', r'\320\226\n'])
    equal((r.status, r.json['stdout']), (200, 'Ж\n'), '1')
    r = d.exec(n, ['/usr/bin/printf', r'\377\376ok'])
    equal((r.status, r.json['exitCode'], r.json['stdout']), (200, 0, '\ufffd\ufffdok'), '2')
    r = d.exec(n, ['/usr/bin/printf', r'\377\376ok'], encoding='base64')
    equal(base64.b64decode(r.json['stdout']), b'\xff\xfeok', '2, base64')
    x = d.exec(n, ['/bin/sh', '-c', r'printf "caf\303"; sleep 0.5; printf "\251 \360\237"; sleep 0.5; printf "\231\202!"'], wait=False).json
    s = d.stream(f'/v1/containers/{n}/exec/{x["id"]}/output')
    pieces = [json.loads(l).get('text', '') for l in s.read().splitlines()]
    s.connection_kept.close()
    equal(''.join(pieces), 'café 🙂!', f'3: {pieces}')
    check('\ufffd' not in ''.join(pieces), '3', pieces)
    r = d.exec(n, ['/usr/bin/printf', r'a\000b'])
    equal((r.status, r.json['stdout']), (200, 'a\0b'), '4')
    d.sh(n, 'mkdir "/tmp/ĉ 🙂"')
    r = d.exec(n, ['/bin/sh', '-c', 'printf %s "$V"; pwd'], env={'V': 'ĉ 🙂'}, cwd='/tmp/ĉ 🙂')
    equal(r.json['stdout'], 'ĉ 🙂/tmp/ĉ 🙂\n', '5')
    equal(d.request('PUT', d.files(n), 'Ж'.encode(), path='/tmp/ĉ 🙂/é').status < 300, True, 'files')
    equal(d.request('GET', d.files(n), path='/tmp/ĉ 🙂/é').body.decode(), 'Ж', 'files')
    d.rm(n)


@test('C049 errors of the tool and results of the command have statuses of their own; a message on stderr, nothing on stdout')
def c049(w):
    d = shared(w)
    n = d.start(name='box')
    env = {'CLOISTER_SOCKET': d.socket}
    r = w.tool('exec', 'box', '--', 'sh', '-c', '[ 3 -gt 4 ]', env=env)
    equal((r.code, r.out, r.err), (1, b'', b''), f'1: {r}')
    r = w.tool('exec', 'no-such-box', '--', 'ls', env=env)
    equal((r.code, r.out), (125, b''), f'2: {r}')
    check('no-such-box' in r.errtext and r.errtext.count('\n') == 1, '2', r)
    r = w.tool('exec', 'box', '--', 'true', env={'CLOISTER_SOCKET': w.base + '/none.sock'})
    equal((r.code, r.out), (125, b''), f'3: {r}')
    check('/none.sock' in r.errtext, '3', r)
    r = w.tool('exec', '--no-such-option', 'box', '--', 'true', env=env)
    equal((r.code, r.out), (125, b''), f'4: {r}')
    check('--no-such-option' in r.errtext, '4', r)
    r = w.tool('exec', 'box', '--', 'sh', '-c', 'exit 125', env=env)
    equal((r.code, r.err), (125, b''), f'5: {r}')
    r = w.tool('exec', '--json', 'box', '--', 'sh', '-c', 'exit 125', env=env)
    equal((r.code, json.loads(r.text)['exitCode']), (125, 125), f'5, JSON: {r}')
    r = w.tool('exec', '--json', 'no-such-box', '--', 'ls', env=env)
    check(r.code == 125 and 'error' in json.loads(r.text) and 'exitCode' not in json.loads(r.text), f'5, JSON of an error: {r}')
    # the same distinctions without a daemon
    equal(w.sh('exit 125').code, 125, 'run')
    r = w.sh('exit 125', ['--json'])
    equal(json.loads(r.text)['exitCode'], 125, f'run: {r}')
    r = w.run(['true'], ['--image', 'nosuch', '--json'])
    check(r.code == 125 and 'error' in json.loads(r.text), f'run: {r}')
    d.rm(n)


if __name__ == '__main__':
    main(teardown=lambda w: getattr(w, 'daemon', None) and w.daemon.stop())
