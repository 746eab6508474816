#!/usr/bin/python3
"""Group B: descriptors, the runtime binary, mounts and races."""
import array
import json
import os
import socket
import subprocess

from harness import check, equal, one_of, all_equal, main, test, PYTHON
from oci import Entry, box_image, elf_with_interpreter, image, payload, skeleton


@test('B1 /proc/self/exe as the command, by a script and by an interpreter line: never the agent\'s binary; twin: a script runs')
def b1_self(w):
    r = w.run(['/proc/self/exe', 'x'])
    one_of(r.code, (125, 126, 127), f'/proc/self/exe as argv[0]: {r}')
    check('/proc/self/exe' in r.errtext, 'the message does not name it', r.errtext)
    name = box_image(w, 'b1', [Entry.file('trap', '#!/proc/self/exe\n', 0o755), Entry.link('bin', '/proc/self/exe'),
                               Entry.file('good', '#!/box echo\n', 0o755)])
    for command in ('/trap', '/bin'):
        r = w.run([command, 'x'], ['--image', name])
        # Rootless, the sealed copy belongs to the very user that is root inside: it may be run there, never written (it exits at once).
        sealed = w.mode == 'user' and r.code == 2 and b'cloister-init is started by cloister' in r.err
        check(r.code in (125, 126, 127) or sealed, f'{command}: {r}')
    equal(w.run(['/good'], ['--image', name]).text, '/good\n', 'twin')


@test('B1 a hostile ELF loader in the image opens /proc/self/exe and /proc/1/exe for writing: refused; twin: it runs at all')
def b1_loader(w):
    name = box_image(w, 'b1l', [Entry.dir('evil'), Entry.file('evil/ld.so', payload('loader'), 0o755),
                                Entry.file('program', elf_with_interpreter('/evil/ld.so'), 0o755)])
    r = w.run(['/program'], ['--image', name])
    equal(r.code, 0, f'twin: the loader ran: {r}')
    got = dict(l.split() for l in r.text.splitlines())
    equal(set(got), {'self', 'init'}, 'its report')
    # /proc/self/exe is the image's own program, open and so "text busy"; the agent's must not open at all.
    one_of(got['self'], ('-26', '-13', '-1'), 'opening /proc/self/exe')
    one_of(got['init'], ('-13', '-1'), 'opening /proc/1/exe')


@test('B1 racing every /proc/PID/exe while processes start: the agent\'s memfd is never opened, its bytes stay; '
      'twin: own programs are opened for reading')
def b1_race(w):
    r = w.py(r'''
stop = time.time() + 2
seen, bad = set(), []
def race():
    while time.time() < stop:
        for p in os.listdir("/proc"):
            if not p.isdigit(): continue
            try:
                link = os.readlink("/proc/%s/exe" % p)
                fd = os.open("/proc/%s/exe" % p, os.O_RDONLY)
            except OSError:
                continue
            seen.add(link.split(" ")[0])
            if "memfd" in link or "cloister" in link:
                for way in ("/proc/self/fd/%d" % fd,):
                    bad.append([link, opened(way, os.O_WRONLY), opened(way, os.O_RDWR | os.O_TRUNC)])
            os.close(fd)
threads = [threading.Thread(target=race) for _ in range(2)]
for t in threads: t.start()
import subprocess
while time.time() < stop:
    subprocess.run(["/bin/true"])
for t in threads: t.join()
R["seen"], R["bad"] = sorted(seen), bad
''')
    equal(r['bad'], [], 'the agent\'s program was opened')
    check(any('python' in s for s in r['seen']), 'twin: own programs', r['seen'])


@test('B2 working directories of /proc/self/fd/N, /proc/1/cwd and the like: refused and named; twin: an ordinary one')
def b2(w):
    tried = [f'/proc/self/fd/{n}' for n in range(0, 24)] + ['/proc/self/cwd', '/proc/self/root', '/proc/1/cwd', '/proc/1/root',
                                                           '/proc/1/fd/3', '/proc/thread-self/fd/5', '/proc/self/fd/7/../../etc']
    for n, d in enumerate(tried):
        if n > 12 and n < 22:
            continue  # each costs a start
        r = w.run(['/bin/pwd'], ['-C', d])
        check(r.code != 0 and r.out == b'', f'-C {d} was taken: {r}')
        check(d in r.errtext or d.split('/..')[0] in r.errtext, f'-C {d}: the message does not name it', r.errtext)
    equal(w.run(['/bin/pwd'], ['-C', '/var/tmp']).text, '/var/tmp\n', 'twin')


@test('B2 WorkingDir of an image: /proc/self/fd/N or a symlink to it refused, ".." ends at the root; twin: WorkingDir honoured')
def b2_image(w):
    for d in ('/proc/self/fd/7', '/proc/self/fd/9/../../../..', '/proc/1/root', '/way'):
        name = box_image(w, 'b2', [Entry.link('way', '/proc/self/fd/8')], config={'WorkingDir': d})
        r = w.run(['/box', 'pwd'], ['--image', name])
        check(r.code != 0 and r.out == b'', f'{d} was taken: {r}')
    name = box_image(w, 'b2', [Entry.link('up', '../../../..')], config={'WorkingDir': '/up/tmp'})
    equal(w.run(['/box', 'pwd'], ['--image', name]).text, '/tmp\n', 'twin')


@test('B2 chroot and ".." from inside: the way up ends at the container\'s root; twin: chroot works')
def b2_chroot(w):
    r = w.py(r'''
os.makedirs("/tmp/jail")
fd = os.open("/", os.O_RDONLY)
os.chroot("/tmp/jail")
R["twin"] = os.listdir("/")
os.fchdir(fd)
for _ in range(100): os.chdir("..")
os.chroot(".")
R["top"] = sorted(os.listdir("/"))
for p in C["secret_files"]:
    R["secret " + p] = slurp(p)
''')
    equal(r['twin'], [], 'twin: chroot')
    check('usr' in r['top'] and 'home' in r['top'], 'top', r['top'])
    all_equal({k: v for k, v in r.items() if k.startswith('secret')}, 'ENOENT', 'secrets at the top')


@test('B4 no descriptor goes in: the launcher\'s open directory, socket and device are not there; twin: stdio is')
def b4_in(w):
    held = [os.open(w.base, os.O_RDONLY), os.open('/dev/zero', os.O_RDONLY), os.open(w.secret_files[0], os.O_RDWR),
            socket.socket(socket.AF_UNIX).detach()]
    for fd in held:
        os.set_inheritable(fd, True)
    for high, fd in enumerate(list(held)):
        os.dup2(fd, 100 + high, True)
        held.append(100 + high)
    try:
        r = w.py(r'''
R["fds"] = {f: value(os.readlink, "/proc/self/fd/" + f) for f in os.listdir("/proc/self/fd")}
R["open"] = [n for n in range(3, 4096) if attempt(os.fstat, n) == "ok"]
''', pass_fds=held)
    finally:
        for fd in held:
            os.close(fd)
    fds = {k: v for k, v in r['fds'].items() if k in ('0', '1', '2')}
    all_equal({k: v.split(':')[0] for k, v in fds.items()}, ('pipe', '/dev/null'), 'stdio')
    equal(r['open'], [], 'descriptors beyond stdio')


@test('B4 no descriptor comes out: SCM_RIGHTS on stdio is refused although the launcher\'s are sockets; twin: bytes pass')
def b4_out(w):
    ours, theirs = socket.socketpair()
    script = w.script(r'''
for fd in (0, 1, 2):
    s = None
    R["is socket %d" % fd] = stat.S_ISSOCK(os.fstat(fd).st_mode)
    message = ctypes.create_string_buffer(56)
    R["sendmsg %d" % fd] = attempt(lambda: syscall(46, fd, message, 0))
os.write(1, b"bytes\n")
''')
    p = w.popen([w.cloister, 'run', '--', *script], stdin=theirs, stdout=theirs, stderr=theirs)
    theirs.close()
    got, rights = b'', []
    while True:
        data, control, _, _ = ours.recvmsg(65536, socket.CMSG_SPACE(400))
        rights += control
        if not data:
            break
        got += data
        if got.rstrip().endswith(b'}'):
            ours.shutdown(socket.SHUT_WR)
    ours.close()
    equal(p.wait(20), 0, f'exit: {got!r}')
    equal(rights, [], 'control messages came out')
    lines = got.decode().splitlines()
    check('bytes' in lines, 'twin', lines)
    r = json.loads(lines[-1])
    all_equal(r, (False, 'ENOTSOCK'), 'stdio inside')


@test('B8 pivot_root, mount --move, shared propagation: EPERM, no peer group with the host, host table unchanged; twin: reading '
      '/proc/self/mountinfo')
def b8(w):
    before = open('/proc/self/mountinfo').read().count('\n')
    r = w.py(r'''
os.makedirs("/tmp/a/b"); os.makedirs("/tmp/c")
R["pivot"] = attempt(lambda: syscall("pivot_root", "/tmp/a", "/tmp/a/b"))
for name, flags in dict(bind=0x1000, rbind=0x5000, move=0x2000, shared=0x100000, rshared=0x104000, slave=0x80000, private=0x40000,
                        remount=0x20, unbindable=0x20000).items():
    R["mount " + name] = attempt(lambda: syscall("mount", "/proc/self/root", "/tmp/c", 0, flags, 0))
for fs in ("tmpfs", "proc", "sysfs", "overlay", "fuse", "ext4", "devpts", "mqueue", "9p", "nfs", "cgroup2", "bpf", "debugfs"):
    R["mount " + fs] = attempt(lambda: syscall("mount", "x", "/tmp/c", fs, 0, 0))
    R["fsopen " + fs] = attempt(lambda: syscall("fsopen", fs, 0))
for name, flags in dict(plain=0, detach=2, force=1, expire=4).items():
    for p in ("/", "/proc", "/proc/kcore", "/usr", "/dev/pts", "/sys/firmware"):
        R["umount %s %s" % (name, p)] = attempt(lambda: syscall("umount2", p, flags))
R["open_tree"] = attempt(lambda: syscall("open_tree", -100, "/", 1))
R["move_mount"] = attempt(lambda: syscall("move_mount", -100, "/usr", -100, "/tmp/c", 0))
R["fsmount"] = attempt(lambda: syscall("fsmount", 0, 0, 0))
R["fspick"] = attempt(lambda: syscall("fspick", -100, "/", 0))
R["mount_setattr"] = attempt(lambda: syscall("mount_setattr", -100, "/usr", 0, ctypes.create_string_buffer(32), 32))
R["table"] = open("/proc/self/mountinfo").read().splitlines()
''')
    table = r.pop('table')
    all_equal(r, 'EPERM', 'mounting')
    check(len(table) > 8, 'twin: mountinfo', table)
    for line in table:
        head = line.split(' - ')[0]
        check('shared:' not in head and 'master:' not in head, 'propagation with the host', line)
        check(w.base not in line and '/build' not in line, 'a host path in mountinfo', line)
    equal(open('/proc/self/mountinfo').read().count('\n'), before, 'the host\'s mounts')


@test('B9 read-only and nosuid mounts: remount EPERM, writing EROFS, flags as promised; twin: writing where it is allowed')
def b9(w):
    r = w.py(r'''
for p in ("/usr", "/proc/sys", "/sys", "/", "/dev", "/proc"):
    R["remount " + p] = attempt(lambda: syscall("mount", 0, p, 0, 0x20 | 0x1000, 0))
    R["setattr " + p] = attempt(lambda: syscall("mount_setattr", -100, p, 0, ctypes.create_string_buffer(struct.pack("4Q", 0, 1, 0, 0)), 32))
for p in ("/usr/x", "/usr/bin/sh", "/sys/x", "/proc/sys/x", "/usr/lib/os-release"):
    R["write " + p] = opened(p, os.O_WRONLY | os.O_CREAT)
R["rename"] = attempt(os.rename, "/usr/bin", "/usr/bin2")
R["unlink"] = attempt(os.unlink, "/usr/bin/env")
R["chmod"] = attempt(os.chmod, "/usr/bin/env", 0o777)
flags = {}
for l in open("/proc/self/mountinfo"):
    f = l.split(); flags[f[4]] = f[5].split(",")
R["flags"] = flags
for p in ("/tmp/x", "/root/x", "/workspace/x", "/dev/shm/x", "/run/x", "/var/tmp/x", "/etc/x"):
    R["twin " + p] = opened(p, os.O_WRONLY | os.O_CREAT)
''')
    flags = r.pop('flags')
    all_equal({k: v for k, v in r.items() if k.startswith(('remount', 'setattr'))}, 'EPERM', 'remount')
    all_equal({k: v for k, v in r.items() if k.startswith('write') or k in ('rename', 'unlink', 'chmod')},
              ('EROFS', 'EACCES', 'EPERM', 'ENOENT', 'ETXTBSY'), 'writing')
    all_equal({k: v for k, v in r.items() if k.startswith('twin')}, 'ok', 'twin')
    for where, wanted in {'/': ('nosuid', 'nodev'), '/usr': ('ro', 'nosuid', 'nodev'), '/proc': ('nosuid', 'nodev', 'noexec'),
                          '/proc/sys': ('ro', 'nosuid', 'nodev', 'noexec'), '/sys': ('ro', 'nosuid', 'nodev', 'noexec'),
                          '/dev': ('nosuid', 'noexec'), '/dev/shm': ('nosuid', 'nodev'), '/dev/pts': ('nosuid', 'noexec'),
                          '/run': ('nosuid', 'nodev')}.items():
        check(where in flags, where + ' is no mount', flags)
        missing = [f for f in wanted if f not in flags[where]]
        equal(missing, [], f'flags missing on {where}')


@test('B10 overlay marks: trusted.* refused; user.overlay.* redirect, opaque, metacopy, whiteout change nothing; twin: user.x works')
def b10(w):
    # Two images: what belongs to the first must not come to light in a container of the second.
    box_image(w, 'b10other', [Entry.dir('hidden'), Entry.file('hidden/other', 'OTHER-IMAGE')])
    name = image(w, [skeleton() + [Entry.dir('low'), Entry.file('low/one', '1'), Entry.dir('low2'), Entry.file('low2/two', '2')],
                     [Entry.dir('low'), Entry.file('low/three', '3')]])
    payload_text = r'''
for d in ("/etc/opaque", "/etc/redir", "/root/meta"): os.makedirs(d)
open("/root/meta/file", "w").write("mine")
for n in ("trusted.overlay.redirect", "trusted.overlay.opaque", "trusted.overlay.metacopy", "trusted.x",
          "security.ima", "security.evm"):
    R["set " + n] = attempt(os.setxattr, "/etc/redir", n, b"/etc")
for p, n, v in (("/etc", "opaque", b"y"), ("/etc/redir", "redirect", b"/etc"), ("/etc/redir", "redirect", b"/../../../../usr"),
                ("/etc/opaque", "opaque", b"y"), ("/root/meta/file", "metacopy", b""), ("/root/meta/file", "redirect", b"/etc/passwd"),
                ("/etc/redir", "whiteout", b"y"), ("/etc/redir", "whiteouts", b"y"), ("/etc/redir", "origin", b"x")):
    R["user %s %s" % (p, n)] = attempt(os.setxattr, p, "user.overlay." + n, v)
R["passwd"] = slurp("/etc/passwd")[:5]
R["redir"] = os.listdir("/etc/redir")
R["meta"] = slurp("/root/meta/file")
R["etc"] = "passwd" in os.listdir("/etc")
R["twin"] = attempt(os.setxattr, "/root/meta/file", "user.x", b"1")
R["twin value"] = value(lambda: os.getxattr("/root/meta/file", "user.x").decode())
'''
    r = w.py(payload_text)
    all_equal({k: v for k, v in r.items() if k.startswith('set')}, ('EPERM', 'EOPNOTSUPP', 'EACCES', 'EINVAL'), 'trusted and security')
    equal((r['passwd'], r['redir'], r['meta'], r['etc']), ('root:', [], 'mine', True), 'what is seen after setting the marks')
    one_of(r['twin'], ('ok', 'EOPNOTSUPP'), 'twin')
    if r['twin'] == 'ok':
        equal(r['twin value'], '1', 'twin')
    r = w.run(['/box', 'find', '/low'], ['--image', name])
    equal(sorted(r.text.splitlines()), ['f /low/one', 'f /low/three'], f'twin: layers merge: {r}')


@test('B10 overlay marks shipped in a layer (redirect, opaque, metacopy, whiteout device): filtered, nothing else comes to light; '
      'twin: user.mark is kept')
def b10_layer(w):
    marks = {'SCHILY.xattr.user.overlay.redirect': '/etc', 'SCHILY.xattr.trusted.overlay.redirect': '/etc',
             'SCHILY.xattr.trusted.overlay.opaque': 'y', 'SCHILY.xattr.user.overlay.opaque': 'y',
             'SCHILY.xattr.user.overlay.metacopy': '', 'SCHILY.xattr.trusted.overlay.metacopy': '',
             'SCHILY.xattr.user.mark': 'kept'}
    name = image(w, [skeleton() + [Entry.dir('a'), Entry.file('a/low', 'low')],
                     [Entry.dir('a', pax=marks), Entry.file('a/high', 'high', pax=marks), Entry.dir('b', pax=marks)]])
    r = w.run(['/box', 'find', '/a'], ['--image', name])
    equal(sorted(r.text.splitlines()), ['f /a/high', 'f /a/low'], f'merge: {r}')
    equal(w.run(['/box', 'find', '/b'], ['--image', name]).text, '', 'redirected directory')
    equal(w.run(['/box', 'cat', '/a/high'], ['--image', name]).text, 'high', 'metacopy')
    r = w.run(['/box', 'xattrs', '/a/high'], ['--image', name])
    names = r.text.split()
    equal([n for n in names if 'overlay' in n], [], 'marks that survived')
    equal([n for n in names if n == 'user.mark'], ['user.mark'], f'twin: {r}')


@test('B12 mount storm: no mount is made, the host\'s table is as long as before; twin: the container\'s own table is short')
def b12(w):
    before = len(open('/proc/self/mountinfo').readlines())
    r = w.py(r'''
os.makedirs("/tmp/m")
R["count"] = sum(1 for _ in range(20000) if attempt(lambda: syscall("mount", "/tmp", "/tmp/m", 0, 0x1000, 0)) == "ok")
R["open_tree"] = sum(1 for _ in range(2000) if attempt(lambda: syscall("open_tree", -100, "/tmp", 1)) == "ok")
R["namespaces"] = sum(1 for _ in range(2000) if attempt(lambda: syscall("unshare", 0x20000)) == "ok")
R["mounts"] = len(open("/proc/self/mountinfo").readlines())
''')
    equal((r['count'], r['open_tree'], r['namespaces']), (0, 0, 0), 'mounts made')
    check(5 < r['mounts'] < 100, 'twin: own mounts', r['mounts'])
    equal(len(open('/proc/self/mountinfo').readlines()), before, 'the host\'s mounts')


@test('B13 image paths that a runtime writes to (/etc/hostname, hosts, resolv.conf, mtab, /.dockerenv, /run) as symlinks to the host: '
      'nothing is written outside; twin: the image starts')
def b13(w):
    planted = [Entry.link(p, f'{w.outside}/{n}') for n, p in enumerate(
        ('etc/hostname', 'etc/hosts', 'etc/resolv.conf', 'etc/mtab', '.dockerenv', '.krun_config.json', '.cloister', 'workspace',
         'home', 'root', 'var'))]
    name = box_image(w, 'b13', planted)
    r = w.run(['/box', 'echo', 'started'], ['--image', name, '--hostname', 'given'])
    equal(r.text, 'started\n', f'twin: {r}')
    equal(os.listdir(w.outside), [], 'written outside')


@test('B13 --copy-in and --copy-out through symlinks planted by the image or the guest: nothing outside; twin: plain copies')
def b13_copy(w):
    source = os.path.join(w.scratch, 'give.txt')
    open(source, 'w').write('given')
    w.own(source, 0o644)
    name = box_image(w, 'b13c', [Entry.link('door', w.outside), Entry.dir('in')])
    w.run(['/box', 'echo', 'x'], ['--image', name, '--copy-in', f'{source}:/door/give.txt'])
    equal(os.listdir(w.outside), [], 'copied in through a symlink')
    r = w.run(['/box', 'cat', '/in/give.txt'], ['--image', name, '--copy-in', f'{source}:/in/give.txt'])
    equal(r.text, 'given', f'twin: copy in: {r}')
    # The guest makes what is copied out a link to a host file, an absolute path, or a directory with both.
    to = os.path.join(w.scratch, 'taken')
    r = w.sh(f'mkdir /tmp/t; ln -s {w.secret_files[0]} /tmp/t/secret; ln -s ../../../../../../../..{w.base} /tmp/t/up; '
             f'echo plain > /tmp/t/plain; ln -s plain /tmp/t/inside; mkfifo /tmp/t/fifo; chmod 4755 /tmp/t/plain',
             ['--copy-out', f'/tmp/t:{to}'])
    check(os.path.isdir(to), 'twin: copy out', r)
    equal(open(to + '/plain').read(), 'plain\n', 'twin: copy out')
    equal(os.stat(to + '/plain').st_mode & 0o7000, 0, 'setuid came out')
    found = []
    for d, dirs, files in os.walk(to):
        for f in dirs + files:
            p = os.path.join(d, f)
            real = os.path.realpath(p)
            if not real.startswith(os.path.realpath(to) + '/'):
                found.append(f'{p} -> {real}')
            if not (os.path.isfile(p) or os.path.isdir(p) or os.path.islink(p)):
                found.append(p + ' is special')
    equal(found, [], 'links out of the copy')
    single = os.path.join(w.scratch, 'single')
    r = w.sh(f'ln -s {w.secret_files[0]} /tmp/link', ['--copy-out', f'/tmp/link:{single}'])
    check(not os.path.exists(single) or w.secret not in open(single).read(), 'a host file through the copy', r)


if __name__ == '__main__':
    main()
