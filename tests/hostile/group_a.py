#!/usr/bin/python3
"""Group A: namespaces, capabilities, cgroups, /proc and /sys. IDs as in docs/security.md."""
import os
import re
import shutil
import socket
import subprocess
import time

from harness import KEPT, Failed, check, equal, one_of, all_equal, main, test, processes
from oci import image, box_image, Entry, PROC_MAGIC, SYSFS_MAGIC, TMPFS_MAGIC

REFUSED_FILE = ('EROFS', 'EACCES', 'EPERM', 'ENOENT')


@test('A1 release_agent by a cgroup v1 mount after unshare: EPERM, no hierarchy in sight; twin: fork and /proc/self/cgroup')
def a1(w):
    r = w.py(r'''
R["unshare"] = attempt(lambda: syscall("unshare", 0x10000000 | 0x02000000))
R["unshare cgroup"] = attempt(lambda: syscall("unshare", 0x02000000))
os.makedirs("/tmp/cg")
for option in ("memory", "rdma", "none,name=x"):
    R["mount " + option] = attempt(lambda: syscall("mount", "cgroup", "/tmp/cg", "cgroup", 0, option))
R["mount v2"] = attempt(lambda: syscall("mount", "cgroup2", "/tmp/cg", "cgroup2", 0, 0))
R["found"] = [p for top in ("/sys", "/proc/self", "/run", "/tmp", "/dev") for p in tree(top)
              if os.path.basename(p) in ("release_agent", "notify_on_release", "cgroup.procs", "tasks")]
R["fork"] = in_child(lambda: 42)
R["cgroup"] = slurp("/proc/self/cgroup")
''')
    all_equal({k: v for k, v in r.items() if k.startswith(('unshare', 'mount'))}, 'EPERM', 'cgroup attempts')
    equal(r['found'], [], 'cgroup files inside')
    equal(r['fork'], 42, 'twin: fork')
    check('0::/' in r['cgroup'], 'twin: /proc/self/cgroup', r['cgroup'])


@test('A2 the host\'s cgroup files: none visible, own cgroup shown as the root, sibling untouched; twin: sibling still answers')
def a2(w):
    w.victim()
    r = w.py(r'''
R["sys"] = value(lambda: sorted(os.listdir("/sys/fs/cgroup")))
for name in ("memory", "pids", "unified", "cloister", "../cgroup/cloister"):
    R["open " + name] = opened("/sys/fs/cgroup/" + name + "/cgroup.procs", os.O_WRONLY)
R["paths"] = sorted({l.strip().split(":", 2)[2] for l in open("/proc/self/cgroup")})
R["mounts"] = [l for l in open("/proc/self/mountinfo") if " - cgroup" in l]
''')
    equal(r['sys'], [], '/sys/fs/cgroup')
    all_equal({k: v for k, v in r.items() if k.startswith('open')}, 'ENOENT', 'cgroup files')
    equal(r['mounts'], [], 'cgroup mounts')
    # A hierarchy that the engine does not use has no directory of the container: there its path may be seen, as a way up.
    bad = [p for p in r['paths'] if 'cloister' in p or 'hostile' in p]
    equal(bad, [], 'paths of the host in /proc/self/cgroup')


@test('A4 core_pattern, modprobe, hotplug, binfmt_misc, other sysctls: not writable, host values stay; twin: ostype readable')
def a4(w):
    names = ['kernel/core_pattern', 'kernel/modprobe', 'kernel/hotplug', 'kernel/poweroff_cmd', 'kernel/panic',
             'kernel/core_pipe_limit', 'kernel/sysrq', 'kernel/usermodehelper/bset', 'kernel/ns_last_pid', 'fs/suid_dumpable',
             'fs/protected_symlinks', 'fs/binfmt_misc/register', 'vm/overcommit_memory', 'vm/drop_caches',
             'kernel/randomize_va_space', 'kernel/shmmax', 'kernel/msgmax', 'user/max_user_namespaces', 'fs/mqueue/queues_max',
             'kernel/hostname', 'net/ipv4/ip_forward', 'kernel/unprivileged_bpf_disabled']
    before = {n: open('/proc/sys/' + n).read() for n in names if n != 'fs/binfmt_misc/register' and n != 'vm/drop_caches'
              and os.path.exists('/proc/sys/' + n)}
    r = w.py(r'''
for n in C["names"]:
    R[n] = put("/proc/sys/" + n, "1")
R["chmod"] = attempt(os.chmod, "/proc/sys/kernel/core_pattern", 0o666)
R["rename"] = attempt(os.rename, "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/x")
every = [os.path.join(d, f) for d, _, fs in os.walk("/proc/sys") for f in fs]
R["every"] = [p for p in every if opened(p, os.O_WRONLY) == "ok"]
R["count"] = len(every)
R["twin"] = slurp("/proc/sys/kernel/ostype")
''', facts={'names': names})
    all_equal({n: r[n] for n in names}, REFUSED_FILE, 'writes below /proc/sys')
    check(r['count'] > 50, 'few sysctls were tried', r['count'])
    equal(r['every'], [], 'sysctls that open for writing')
    for k in ('chmod', 'rename'):
        one_of(r[k], REFUSED_FILE, k)
    equal(r['twin'], 'Linux\n', 'twin: ostype')
    for n, text in before.items():
        if n != 'kernel/ns_last_pid':
            equal(open('/proc/sys/' + n).read(), text, 'the host\'s ' + n)


@test('A5 sysrq-trigger, kcore, kmsg, keys, timer_list, /sys/firmware, /sys/kernel/debug, /dev/mem: empty, read-only or absent; '
      'twin: /proc/meminfo')
def a5(w):
    r = w.py(r'''
for p in ("/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats",
          "/proc/interrupts", "/proc/key-users", "/proc/kallsyms", "/proc/kpagecount", "/proc/kpageflags", "/proc/vmallocinfo",
          "/proc/slabinfo", "/proc/mtrr"):
    R["read " + p] = slurp(p, 65536)
for p in ("/proc/sysrq-trigger", "/proc/kcore", "/proc/kmsg", "/proc/mtrr", "/proc/1/mem"):
    R["write " + p] = put(p, "h")
for p in ("/sys/firmware", "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security", "/sys/fs/bpf", "/proc/acpi",
          "/proc/scsi", "/sys/devices/virtual/powercap"):
    R["list " + p] = value(lambda: os.listdir(p))
for p in ("/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/nvram", "/dev/cpu/0/msr", "/dev/hpet"):
    R["device " + p] = opened(p, os.O_RDWR)
R["twin"] = slurp("/proc/meminfo")[:8]
''')
    for k, v in r.items():
        if k.startswith('read '):
            if k == 'read /proc/kallsyms' and v not in REFUSED_FILE:
                addresses = {l.split()[0] for l in v.splitlines()[:1000]}
                equal(addresses - {'0000000000000000'}, set(), 'kernel addresses in kallsyms')
            elif k == 'read /proc/key-users':
                check(v in REFUSED_FILE or v == '' or len(v.splitlines()) <= 2, 'key-users tells of others', v)
            else:
                check(v in REFUSED_FILE or v == '', k, 'is not masked:', v[:200])
        elif k.startswith('write '):
            # A mask is the null device: it takes what is written and does nothing.
            check(v in REFUSED_FILE or (v == 'ok' and k in ('write /proc/kcore', 'write /proc/kmsg')), k, v)
        elif k.startswith('list '):
            check(v in ('ENOENT', 'EACCES', 'EPERM') or v == [], k, 'is not masked:', v)
        elif k.startswith('device '):
            equal(v, 'ENOENT', k)
    equal(r['twin'], 'MemTotal', 'twin: meminfo')


@test('A6 an image whose /dev/null is a symlink into /proc: masks and /dev/null stay ours; twin: the image starts, /dev/null works')
def a6(w):
    name = box_image(w, 'a6', [Entry.dir('dev'), Entry.link('dev/null', '/proc/sysrq-trigger'),
                               Entry.link('dev/zero', '/proc/kcore'), Entry.link('dev/console', '/proc/kmsg'),
                               Entry.file('dev/planted', b'planted')])
    r = w.run(['/box', 'stat', '/dev/null'], ['--image', name])
    check(r.code == 0 and r.text.startswith('c ') and 'dev 1:3' in r.text, '/dev/null', r)
    r = w.run(['/box', 'stat', '/dev/zero'], ['--image', name])
    check(r.code == 0 and 'dev 1:5' in r.text, '/dev/zero', r)
    equal(w.run(['/box', 'stat', '/dev/planted'], ['--image', name]).code, 1, 'the image\'s /dev shows through')
    for p in ('/proc/kcore', '/proc/timer_list', '/proc/keys'):
        r = w.run(['/box', 'cat', p], ['--image', name])
        check(r.out == b'' and (r.code == 0 or 'ENOENT' in r.errtext), p + ' is not masked', r)
    r = w.run(['/box', 'put', '/dev/null', 'x'], ['--image', name])
    equal(r.code, 0, 'twin: writing to /dev/null')


@test('A8 an image that ships its own /proc and /sys trees: the real ones cover them; twin: its other files are seen')
def a8(w):
    name = box_image(w, 'a8', [
        Entry.dir('proc'), Entry.dir('proc/self'), Entry.dir('proc/self/attr'), Entry.file('proc/self/attr/exec', b''),
        Entry.dir('proc/sys'), Entry.dir('proc/sys/kernel'), Entry.file('proc/sys/kernel/core_pattern', b'fake'),
        Entry.dir('sys'), Entry.dir('sys/fs'), Entry.file('sys/fs/fake', b'fake'), Entry.file('etc-fake', b'seen')])
    for path, magic in (('/proc', PROC_MAGIC), ('/proc/sys', PROC_MAGIC), ('/sys', SYSFS_MAGIC), ('/dev', TMPFS_MAGIC),
                        ('/run', TMPFS_MAGIC)):
        r = w.run(['/box', 'statfs', path], ['--image', name])
        one_of(r.text.strip(), (magic, TMPFS_MAGIC) if path == '/sys' else (magic,), f'file system at {path}')
    check(w.run(['/box', 'cat', '/proc/sys/kernel/core_pattern'], ['--image', name]).out != b'fake', 'the fake shows')
    equal(w.run(['/box', 'cat', '/sys/fs/fake'], ['--image', name]).code, 1, 'the fake /sys shows')
    equal(w.run(['/box', 'cat', '/etc-fake'], ['--image', name]).text, 'seen', 'twin')


def refused_start(w, name, *words):
    r = w.run(['/box', 'echo', 'started'], ['--image', name])
    equal(r.code, 125, f'start of {name}: {r}')
    check(b'started' not in r.out, 'it started', r)
    check(any(x in r.errtext for x in words), f'the message names none of {words}:', r.errtext)
    return r


@test('A9 an image where /proc or /sys is a symlink: refused, 125, the message names it; twin: an image without them starts')
def a9(w):
    for where in ('proc', 'sys'):
        for target in ('/outside', '../..', w.outside):
            name = box_image(w, 'a9', [Entry.link(where, target)], mounts=False)
            refused_start(w, name, '/' + where)
    name = box_image(w, 'a9', [], mounts=False)
    r = w.run(['/box', 'statfs', '/proc'], ['--image', name])
    equal(r.text.strip(), PROC_MAGIC, f'twin: {r}')


@test('A10 an image where /dev or /run is a symlink to a host path: refused, nothing written there; twin: plain directories')
def a10(w):
    for where in ('dev', 'run'):
        for target in (w.outside, '/proc/self/cwd', '../../../../' + w.outside):
            name = box_image(w, 'a10', [Entry.link(where, target)], mounts=False)
            refused_start(w, name, '/' + where)
            equal(os.listdir(w.outside), [], 'written to the host')
    name = box_image(w, 'a10', [Entry.dir('dev'), Entry.dir('run')], mounts=False)
    equal(w.run(['/box', 'echo', 'started'], ['--image', name]).text, 'started\n', 'twin')


@test('A12 user namespaces inside: unshare, clone and clone3 refused, limit 0; twin: threads and processes')
def a12(w):
    r = w.py(r'''
flags = dict(NEWNS=0x20000, NEWCGROUP=0x2000000, NEWUTS=0x4000000, NEWIPC=0x8000000, NEWUSER=0x10000000, NEWPID=0x20000000,
             NEWNET=0x40000000, NEWTIME=0x80)
for n, f in flags.items():
    R["unshare " + n] = attempt(lambda: syscall("unshare", f))
    if n != "NEWTIME":
        R["clone " + n] = attempt(lambda: syscall("clone", f | 17, 0, 0, 0, 0))
        R["clone high " + n] = attempt(lambda: syscall("clone", f | 17 | (0xdeadbeef << 32), 0, 0, 0, 0))
args = struct.pack("11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
R["clone3"] = attempt(lambda: syscall("clone3", ctypes.create_string_buffer(args), len(args)))
R["limit"] = slurp("/proc/sys/user/max_user_namespaces")
R["raise"] = put("/proc/sys/user/max_user_namespaces", "100")
for kind in ("user", "mnt", "net", "pid", "ipc", "uts", "cgroup"):
    fd = os.open("/proc/self/ns/" + kind, os.O_RDONLY)
    R["setns " + kind] = attempt(lambda: syscall("setns", fd, 0))
    os.close(fd)
done = []
t = threading.Thread(target=lambda: done.append(1)); t.start(); t.join()
R["thread"] = done
R["fork"] = in_child(lambda: 7)
''')
    all_equal({k: v for k, v in r.items() if k.startswith(('unshare', 'setns', 'clone NEW', 'clone high'))}, 'EPERM', 'namespaces')
    equal(r['clone3'], 'ENOSYS', 'clone3')
    equal(r['limit'], '0\n', 'max_user_namespaces')
    one_of(r['raise'], REFUSED_FILE, 'raising it')
    equal((r['thread'], r['fork']), ([1], 7), 'twin')


SETUID = r'''
import shutil
target = C.get("dir", "/tmp") + "/suid"
shutil.copy("/usr/bin/python3.11" if os.path.exists("/usr/bin/python3.11") else os.path.realpath("/usr/bin/python3"), target)
os.chmod(target, 0o6755)
ask = "import os; print(os.getuid(), os.geteuid(), os.getgid(), os.getegid(), [l.split()[1] for l in open('/proc/self/status') if l.startswith('CapEff')][0])"
def as_user(uid):
    r, wr = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(wr, 1)
        try:
            if not C.get("single"): os.setgroups([])
            os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
            os.execv(target, [target, "-I", "-S", "-c", ask])
        except OSError as e:
            os.write(1, outcome(e).encode())
        os._exit(1)
    os.close(wr)
    text = os.read(r, 4096).decode()
    return text.split(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
R["mode"] = oct(os.stat(target).st_mode & 0o7777)
R["setuid"] = as_user(65534)
R["nnp"] = [l.split()[1] for l in open("/proc/self/status") if l.startswith("NoNewPrivs")]
os.chmod(target, 0o755)
# a file capability (version 2: effective bit, cap_sys_admin|cap_chown permitted)
caps = struct.pack("<5I", 0x02000001, (1 << 21) | 1, 0, 0, 0)
R["set capability"] = attempt(lambda: os.setxattr(target, "security.capability", caps))
R["capability"] = as_user(65534)
'''


@test('A13 setuid binary and file capabilities made inside: no gain; twin: the same binary runs; control on the host gains')
def a13(w):
    r = w.py(SETUID)
    equal(r['nnp'], ['1'], 'no_new_privs')
    equal(r['mode'], '0o6755', 'twin: the bits can be set')
    nobody = [['65534', '65534', '65534', '65534', '0000000000000000'], 0]
    equal(r['setuid'], nobody, 'the setuid program')
    equal(r['capability'], nobody, 'the program with file capabilities')
    if w.mode == 'root':  # /var/tmp: a place that is not mounted nosuid
        d = f'/var/tmp/cloister-hostile-dir-{w.token}'
        os.mkdir(d, 0o755)
        try:
            c = w.py_outside(SETUID, facts={'dir': d})
        finally:
            shutil.rmtree(d)
        equal(c['setuid'][0][1], '0', 'control: outside the sandbox the same program becomes root')


@test('A13 setuid programs of the image (su, sudo, newuidmap, mount): no gain for an ordinary user inside; twin: they run')
def a13_image(w):
    found = [p for p in ('/usr/bin/su', '/usr/bin/mount', '/usr/bin/newuidmap', '/usr/bin/passwd', '/usr/bin/chsh', '/usr/bin/sudo')
             if os.path.exists(p) and os.stat(p).st_mode & 0o4000]
    check(found, 'this machine has no setuid program to try')
    r = w.py(r'''
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
def effective(path):
    # Traced programs would lose setuid anyhow: look at a stopped one from its parent instead.
    r, wr = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(r, 0)
        os.execv(path, [path] + (["--", "-c", "id"] if path.endswith("su") else ["--help"]))
    time.sleep(0.15)
    text = slurp("/proc/%d/status" % pid)
    os.close(wr)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    uids = [l.split()[1:] for l in text.splitlines() if l.startswith("Uid")]
    return uids[0] if uids else text
for p in C["found"]:
    R[p] = effective(p)
R["after"] = os.getresuid()
R["flags"] = os.statvfs("/usr").f_flag
''', facts={'found': found})
    for p in found:
        one_of(r[p], [['65534'] * 4], f'uids of {p}')
    check(r['flags'] & os.ST_NOSUID, '/usr is mounted without nosuid')
    check(r['flags'] & os.ST_RDONLY, '/usr is mounted writable')


@test('A14 ambient and inheritable capabilities of the launcher: gone inside, main process and exec alike; twin: root\'s kept set')
def a14(w):
    want = {'root': {'CapInh': 0, 'CapAmb': 0, 'CapPrm': KEPT, 'CapEff': KEPT, 'CapBnd': KEPT},
            'user': {'CapInh': 0, 'CapAmb': 0, 'CapPrm': 0, 'CapEff': 0, 'CapBnd': KEPT}}
    payload = r'''
R = {l.split(":")[0]: int(l.split()[1], 16) for l in open("/proc/self/status") if l.startswith("Cap")}
R["raise"] = attempt(lambda: syscall("prctl", 47, 2, 21, 0, 0)) # PR_CAP_AMBIENT_RAISE CAP_SYS_ADMIN
'''
    prefixes = [[]]
    if w.mode == 'root':
        prefixes.append(['/usr/bin/setpriv', '--inh-caps=+net_raw,+sys_admin,+sys_ptrace,+mknod',
                         '--ambient-caps=+net_raw,+sys_admin,+sys_ptrace,+mknod', '--'])
    for prefix in prefixes:
        for user, key in (('0', 'root'), ('65534', 'user')):
            r = w.command([*prefix, w.cloister, 'run', '-u', user, '--', *w.script(payload)])
            equal(r.code, 0, f'{prefix}: {r}')
            got = w.parse(r)
            equal(got.pop('raise'), 'EPERM', 'raising an ambient capability')
            equal(got, want[key], f'capabilities of user {user} after {prefix[:2]}')


@test('A16 device nodes: mknod EPERM, host disks, kvm, fuse, tun absent; twin: a FIFO can be made, /dev/zero and /dev/full work')
def a16(w):
    r = w.py(r'''
for name, mode, dev in (("disk", stat.S_IFBLK, (8, 0)), ("vda", stat.S_IFBLK, (254, 0)), ("mem", stat.S_IFCHR, (1, 1)),
                        ("kmsg", stat.S_IFCHR, (1, 11)), ("kvm", stat.S_IFCHR, (10, 232)), ("fuse", stat.S_IFCHR, (10, 229)),
                        ("tun", stat.S_IFCHR, (10, 200)), ("loop", stat.S_IFBLK, (7, 0)), ("own-null", stat.S_IFCHR, (1, 3))):
    for where in ("/tmp/", "/dev/", "/run/", "/dev/shm/", "/root/"):
        R["mknod " + where + name] = attempt(os.mknod, where + name, mode | 0o666, os.makedev(*dev))
for n in ("kvm", "fuse", "net/tun", "vda", "sda", "loop0", "loop-control", "mapper/control", "vhost-net", "uinput", "console",
          "rtc0", "dri/card0", "ttyS0", "vsock", "vhost-vsock", "userfaultfd", "autofs", "btrfs-control"):
    R["open " + n] = opened("/dev/" + n, os.O_RDWR)
R["names"] = sorted(os.listdir("/dev"))
R["fifo"] = attempt(os.mkfifo, "/tmp/fifo")
R["zero"] = os.read(os.open("/dev/zero", os.O_RDONLY), 4) == bytes(4)
R["full"] = attempt(lambda: os.write(os.open("/dev/full", os.O_WRONLY), b"x"))
''')
    all_equal({k: v for k, v in r.items() if k.startswith('mknod')}, ('EPERM',), 'mknod')
    all_equal({k: v for k, v in r.items() if k.startswith('open')}, 'ENOENT', 'devices')
    equal(r['names'], ['fd', 'full', 'mqueue', 'null', 'ptmx', 'pts', 'random', 'shm', 'stderr', 'stdin', 'stdout', 'tty',
                       'urandom', 'zero'], '/dev')
    equal((r['fifo'], r['zero'], r['full']), ('ok', True, 'ENOSPC'), 'twin')


@test('A17 open_by_handle_at: EPERM, with any handle; twin: name_to_handle_at may be asked, openat works')
def a17(w):
    r = w.py(r'''
# a handle of ext4's root inode, as in the "shocker" program, and one that name_to_handle_at gives
for kind in (1, 2, 0x81):
    handle = struct.pack("<Ii", 8, kind) + struct.pack("<II", 2, 0)
    for top in ("/", "/usr", "/proc", "/etc/hostname"):
        fd = os.open(top, os.O_RDONLY)
        R["open %d %s" % (kind, top)] = attempt(lambda: syscall("open_by_handle_at", fd, ctypes.create_string_buffer(handle), 0))
        os.close(fd)
buf = ctypes.create_string_buffer(struct.pack("<Ii", 128, 0) + bytes(128)); mount = ctypes.c_int()
R["name"] = attempt(lambda: syscall("name_to_handle_at", -100, "/usr", buf, ctypes.byref(mount), 0))
R["again"] = attempt(lambda: syscall("open_by_handle_at", os.open("/usr", os.O_RDONLY), buf, 0))
R["twin"] = opened("/etc/hostname")
''')
    all_equal({k: v for k, v in r.items() if k.startswith('open') or k == 'again'}, 'EPERM', 'open_by_handle_at')
    one_of(r['name'], ('ok', 'EOPNOTSUPP', 'EOVERFLOW'), 'name_to_handle_at')
    equal(r['twin'], 'ok', 'twin')


TERMINAL = r'''
typed = b"touch /typed-by-the-guest\n"
for fd in (0, 1, 2):
    for shift, label in ((0, ""), (1 << 32, " high")):
        R["TIOCSTI%d%s" % (fd, label)] = attempt(lambda: [syscall(16, fd, 0x5412 + shift, ctypes.create_string_buffer(typed[i:i+1])) for i in range(len(typed))])
        R["TIOCLINUX%d%s" % (fd, label)] = attempt(lambda: syscall(16, fd, 0x541c + shift, ctypes.create_string_buffer(b"\x02" + bytes(16))))
R["tty"] = attempt(lambda: syscall(16, os.open("/dev/tty", os.O_RDWR), 0x5412, ctypes.create_string_buffer(b"x")))
R["size"] = value(lambda: struct.unpack("4H", fcntl.ioctl(0, 0x5413, bytes(8)))[:2])
R["session"] = [os.getsid(0), os.getpid()]
'''


def with_terminal(w, argv, after=b''):
    """Runs argv on a terminal; everything it wrote, its exit code, and what is then in the terminal's input queue."""
    import pty
    import select
    import fcntl
    import struct
    import termios
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack('4H', 33, 101, 0, 0))
    take = 'import os,fcntl,termios,sys; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])'
    p = w.popen(['/usr/bin/python3', '-c', take, *argv], stdin=child, stdout=child, stderr=child)
    out, end = b'', time.monotonic() + 30
    while p.poll() is None or select.select([parent], [], [], 0.1)[0]:
        if select.select([parent], [], [], 0.1)[0]:
            try:
                out += os.read(parent, 65536)
            except OSError:
                break
        if time.monotonic() > end:
            p.kill()
            raise Failed(f'no end on the terminal; so far {out[-500:]!r}')
    os.set_blocking(child, False)
    attrs = termios.tcgetattr(child)
    attrs[3] &= ~termios.ICANON
    termios.tcsetattr(child, termios.TCSANOW, attrs)
    try:
        queued = os.read(child, 4096)
    except BlockingIOError:
        queued = b''
    os.close(parent)
    os.close(child)
    return out, p.wait(), queued


@test('A18 TIOCSTI and TIOCLINUX into the terminal, also with high request bits: EPERM, nothing typed; twin: window size')
def a18(w):
    import json
    out, code, queued = with_terminal(w, [w.cloister, 'run', '-t', '--', *w.script(TERMINAL)])
    line = [l for l in out.decode().replace('\r', '').splitlines() if l.startswith('{')]
    check(line, 'no result:', out[-600:])
    r = json.loads(line[-1])
    all_equal({k: v for k, v in r.items() if k.startswith('TIOC') or k == 'tty'}, 'EPERM', 'ioctl')
    equal(queued, b'', 'typed into the host\'s terminal')
    equal(r['size'], [33, 101], 'twin: window size')
    equal(r['session'][0], r['session'][1], 'the command leads its own session')
    equal(code, 0, 'exit')


@test('A18 the launcher\'s terminal without -t: not the guest\'s controlling terminal; twin: its output arrives')
def a18_plain(w):
    out, code, queued = with_terminal(w, [w.cloister, 'run', '--', *w.script(r'''
R["tty"] = opened("/dev/tty", os.O_RDWR)
R["sti"] = [attempt(lambda: syscall(16, fd, 0x5412, ctypes.create_string_buffer(b"x"))) for fd in (0, 1, 2)]
R["isatty"] = [os.isatty(fd) for fd in (0, 1, 2)]
''')])
    line = out.decode().replace('\r', '')
    check('"tty": "ENXIO"' in line, 'a controlling terminal can be opened', line)
    check('"sti": ["EPERM", "EPERM", "EPERM"]' in line, 'TIOCSTI', line)
    check('"isatty": [false, false, false]' in line, 'the host\'s terminal was passed in', line)
    equal(queued, b'', 'typed into the host\'s terminal')
    equal(code, 0, 'twin')


@test('A20 no daemon or other host socket is mounted in; twin: a socket made inside is found by the same search')
def a20(w):
    r = w.py(r'''
def sockets():
    return [p for p in tree("/") if value(lambda: stat.S_ISSOCK(os.lstat(p).st_mode)) is True]
R["before"] = sockets()
s = socket.socket(socket.AF_UNIX); s.bind("/run/mine.sock")
R["after"] = sockets()
for p in (C["path"], C["daemon"], "/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock",
          "/run/dbus/system_bus_socket", "/run/cloister/cloister.sock", "/run/systemd/private"):
    R["connect " + p] = attempt(lambda: socket.socket(socket.AF_UNIX).connect(p))
R["unix"] = [l.split()[-1] for l in open("/proc/net/unix") if "@" in l or "/" in l]
''', facts=w.facts(daemon=os.path.join(w.rundir, 'cloister.sock')))
    equal(r['before'], [], 'sockets inside')
    equal(r['after'], ['/run/mine.sock'], 'twin: the search works')
    all_equal({k: v for k, v in r.items() if k.startswith('connect')}, 'ENOENT', 'connecting')
    equal([u for u in r['unix'] if 'mine' not in u], [], 'sockets in /proc/net/unix')


@test('A21 keyrings: add_key, request_key, keyctl EPERM, /proc/keys empty; twin: key-like data in a file')
def a21(w):
    r = w.py(r'''
for special in (-1, -2, -3, -4, -5):
    R["add %d" % special] = attempt(lambda: syscall("add_key", "user", "x", b"payload", 7, special))
R["request"] = attempt(lambda: syscall("request_key", "user", "x", 0, -3))
for op in (0, 1, 2, 6, 11, 12, 15):
    R["keyctl %d" % op] = attempt(lambda: syscall("keyctl", op, -3, 0, 0, 0))
R["list"] = slurp("/proc/keys")
open("/tmp/key", "w").write("k")
R["twin"] = slurp("/tmp/key")
''')
    all_equal({k: v for k, v in r.items() if k.split()[0] in ('add', 'request', 'keyctl')}, 'EPERM', 'keyrings')
    one_of(r['list'], ('', 'ENOENT', 'EACCES'), '/proc/keys')
    equal(r['twin'], 'k', 'twin')


@test('A22 host and sibling processes by guessed pid: kill, ptrace, process_vm_readv, pidfd ESRCH, kill(-1) stays inside; '
      'twin: an own child')
def a22(w):
    victims = w.victim()
    payload = r'''
def vm_read(pid):
    local = ctypes.create_string_buffer(16)
    iov = (ctypes.c_size_t * 2)(ctypes.addressof(local), 16)
    remote = (ctypes.c_size_t * 2)(0x400000, 16)
    return syscall("process_vm_readv", pid, iov, 1, remote, 1, 0)
for pid in C["pids"]:
    R["kill %d" % pid] = attempt(os.kill, pid, 0)
    R["term %d" % pid] = attempt(os.kill, pid, 15)
    R["ptrace %d" % pid] = attempt(lambda: syscall("ptrace", 16, pid, 0, 0))
    R["vm %d" % pid] = attempt(vm_read, pid)
    R["pidfd %d" % pid] = attempt(lambda: syscall("pidfd_open", pid, 0))
    R["proc %d" % pid] = opened("/proc/%d/environ" % pid)
    R["root %d" % pid] = opened("/proc/%d/root" % pid)
    R["prio %d" % pid] = attempt(os.setpriority, os.PRIO_PROCESS, pid, 19)
    R["rlimit %d" % pid] = attempt(lambda: syscall("prlimit64", pid, 7, 0, ctypes.create_string_buffer(16)))
R["pids"] = sorted(int(p) for p in os.listdir("/proc") if p.isdigit())
child = os.fork()
if child == 0:
    time.sleep(100)
R["twin vm"] = attempt(lambda: syscall("pidfd_open", child, 0))
R["twin kill"] = attempt(os.kill, child, 9)
os.waitpid(child, 0)
'''
    # Numbers that no process of a fresh container has.
    pids = [p for p in [w.sleeper.pid, os.getpid(), *victims] if p > 50]
    check(len(pids) >= 3, 'pids', pids)
    r = w.py(payload, facts={'pids': pids})
    hostile = {k: v for k, v in r.items() if k.split()[-1].isdigit()}
    all_equal(hostile, ('ESRCH', 'ENOENT'), 'foreign processes')
    equal((r['twin vm'], r['twin kill']), ('ok', 'ok'), 'twin')
    check(max(r['pids']) < 50, 'pids of others in /proc', r['pids'])
    # kill(-1) reaches everything inside but PID 1, and nothing else (the canaries are looked at after each test)
    r = w.sh('sleep 50 & sleep 50 & kill -9 -1; echo alive')
    one_of(r.code, (0, 137), f'kill(-1): {r}')
    # Control: for a process that may be reached the same calls do not say ESRCH.
    p = w.popen(['/bin/sleep', '30'])
    try:
        c = w.py_outside(payload.replace('attempt(os.kill, pid, 15)', '"ESRCH"'), facts={'pids': [p.pid]})
    finally:
        p.kill()
        p.wait()
    equal([c[f'kill {p.pid}'], c[f'pidfd {p.pid}'], c[f'proc {p.pid}']], ['ok'] * 3, 'control')


@test('A24 double fork, setsid, ignored signals, a closed stdio, a zombie storm: all gone within 2 s of the main process; '
      'twin: zombies are reaped while it runs')
def a24(w):
    r = w.py(r'''
def orphan():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for s in range(1, 65):
                try: signal.signal(s, signal.SIG_IGN)
                except (OSError, ValueError): pass
            for fd in range(3): os.close(fd)
            while True: time.sleep(100)
        os._exit(0)
    os.wait()
for _ in range(20): orphan()
for _ in range(300):          # grandchildren whose parent leaves at once: zombies unless PID 1 reaps them
    if os.fork() == 0:
        if os.fork() == 0: os._exit(0)
        os._exit(0)
    os.wait()
time.sleep(0.5)
states = [slurp("/proc/%s/stat" % p).rsplit(")")[-1].split() for p in os.listdir("/proc") if p.isdigit()]
R["zombies"] = sum(1 for s in states if s and s[0] == "Z")
R["orphans"] = sum(1 for s in states if len(s) > 1 and s[1] == "1")
''')
    equal(r['zombies'], 0, 'twin: zombies')
    check(r['orphans'] >= 20, 'the orphans were there', r)
    w.check_leftovers(2)


@test('A25 another container: its /tmp, /dev/shm, /run, processes, sockets, ports, System V IPC out of reach; twin: its own work')
def a25(w):
    w.victim()
    payload = r'''
for p in ("/tmp/victim", "/dev/shm/victim", "/run/victim", "/workspace/victim"):
    R["file " + p] = slurp(p)
R["abstract"] = attempt(lambda: socket.socket(socket.AF_UNIX).connect("\0victim-" + C["token"]))
R["port"] = attempt(lambda: socket.create_connection(("127.0.0.1", 7), 2))
R["shm"] = attempt(lambda: syscall("shmget", 4242, 4096, 0))
R["environ"] = [p for p in os.listdir("/proc") if p.isdigit() and C["token"] in slurp("/proc/%s/cmdline" % p) and int(p) != os.getpid()]
open("/tmp/mine", "w").write("m"); R["twin"] = slurp("/tmp/mine")
'''
    r = w.py(payload, facts={'token': w.token})
    all_equal({k: v for k, v in r.items() if k.startswith('file')}, 'ENOENT', 'files of the other')
    equal((r['abstract'], r['port'], r['shm'], r['environ']), ('ECONNREFUSED', 'ECONNREFUSED', 'ENOENT', []), 'the other')
    equal(r['twin'], 'm', 'twin')


AGENT = r'''
target = C["pid"]
if not target:
    target = os.fork()
    if target == 0: time.sleep(30)
    time.sleep(0.1)
proc = "/proc/%d/" % target
def read_some(path):
    fd = os.open(path, os.O_RDONLY)
    try: os.pread(fd, 1, id(R) if path.endswith("/mem") else 0)
    finally: os.close(fd)
R["uid"] = os.getuid()
for path in ("mem", "environ", "maps", "smaps", "exe", "root", "cwd", "fdinfo", "map_files", "syscall", "auxv", "io", "pagemap", "stack", "personality"):
    ask = os.listdir if path in ("fdinfo", "map_files") else os.readlink if path in ("exe", "root", "cwd") else None
    R["read " + path] = attempt(ask, proc + path) if ask else attempt(read_some, proc + path)
for fd in os.listdir(proc + "fd"): # the numbers may be seen, what they are may not
    R["link " + fd] = attempt(os.readlink, proc + "fd/" + fd)
R["fd 0"] = opened(proc + "fd/0", os.O_RDWR)
R["fd 3"] = opened(proc + "fd/3", os.O_RDWR)
R["mem write"] = opened(proc + "mem", os.O_RDWR)
pidfd = syscall("pidfd_open", target, 0)
for fd in range(8):
    R["getfd %d" % fd] = attempt(lambda: syscall("pidfd_getfd", pidfd, fd, 0))
here, there = ctypes.create_string_buffer(16), id(R)
iov = (ctypes.c_size_t * 2)(ctypes.addressof(here), 16)
remote = (ctypes.c_size_t * 2)(there, 16)
R["vm_readv"] = attempt(lambda: syscall("process_vm_readv", target, iov, 1, remote, 1, 0))
R["vm_writev"] = attempt(lambda: syscall("process_vm_writev", target, iov, 1, remote, 1, 0))
R["attach"] = attempt(lambda: syscall("ptrace", 16, target, 0, 0))
R["seize"] = attempt(lambda: syscall("ptrace", 0x4206, target, 0, 0))
if not C["pid"]: os.kill(target, 9)
'''


@test('A26 the agent attacked from inside as root: memory, descriptors, ptrace refused; twin: the same on an own child works')
def a26(w):
    r = w.py(AGENT, facts={'pid': 1})
    equal(r.pop('uid'), 0, 'runs as root of the container')
    all_equal(r, ('EPERM', 'EACCES'), 'attempts on PID 1')
    own = w.py(AGENT, facts={'pid': 0})
    keys = ('read environ', 'link 0', 'read mem', 'read maps', 'read exe', 'mem write', 'vm_readv', 'attach', 'getfd 0')
    equal({k: own[k] for k in keys}, {k: 'ok' for k in keys}, 'twin')


@test('A26 signals to PID 1 from inside: no effect; twin: the command goes on and its own exit code is told')
def a26_signals(w):
    r = w.run(w.script(r'''
for s in list(range(1, 65)):
    if s not in (32, 33): R["kill %d" % s] = attempt(os.kill, 1, s)
time.sleep(0.3)
print(json.dumps(R)); sys.stdout.flush(); os._exit(43)
'''))
    equal(r.code, 43, f'the command\'s own exit code: {r}')
    all_equal(w.parse(r), ('ok', 'EPERM'), 'kill returns')


@test('A26 everything of PID 1 that opens for writing, prlimit and scheduling of it: the container ends typed or goes on; '
      'twin: the next container works')
def a26_state(w):
    r = w.run(w.script(r'''
for f in sorted(os.listdir("/proc/1")):
    p = "/proc/1/" + f
    if not stat.S_ISREG(os.lstat(p).st_mode): continue
    if opened(p, os.O_WRONLY) == "ok": R.setdefault("writable", []).append(f)
for which in range(16):
    R["prlimit %d" % which] = attempt(lambda: syscall("prlimit64", 1, which, ctypes.create_string_buffer(bytes(16)), 0))
R["nice"] = attempt(os.setpriority, os.PRIO_PROCESS, 1, 19)
put("/proc/1/oom_score_adj", "1000")
print(json.dumps(R), flush=True)
time.sleep(0.3)
os._exit(0)
'''), timeout=20)
    # Refused, or the container's own loss; never a hang, and never a success that is none.
    one_of(r.code, (0, 125, 137), f'end: {r}')
    if r.code != 0:
        check(r.err.strip(), 'the end is not explained', r)
    equal(w.sh('echo well').text, 'well\n', 'twin')


@test('A26 the limits of PID 1: prlimit that sets is EPERM for each, also with high argument bits, and the agent goes on; '
      'twin: prlimit of an own child')
def a26_limits(w):
    r = w.py(r'''
new = struct.pack("QQ", 3, 3)
for which in range(16):
    R["prlimit %d" % which] = attempt(lambda: syscall("prlimit64", 1, which, new, 0))
    R["prlimit high %d" % which] = attempt(lambda: syscall("prlimit64", 1 | 0xdead << 32, which, new, ctypes.create_string_buffer(16)))
child = os.fork()
if child == 0: time.sleep(30)
R["twin"] = attempt(lambda: syscall("prlimit64", child, 7, new, 0))
os.kill(child, 9); os.waitpid(child, 0)
''')
    all_equal({k: v for k, v in r.items() if k.startswith('prlimit')}, 'EPERM', 'prlimit of PID 1')
    equal(r['twin'], 'ok', 'twin')


@test('A26 descriptors and processes used up inside: exec is refused with a reason or works, PID 1 stays; twin: exit code told')
def a26_exhaust(w):
    r = w.run(w.script(r'''
kept = []
try:
    while True: kept.append(os.open("/dev/null", os.O_RDONLY))
except OSError as e:
    R["files"] = outcome(e)
for fd in kept[-20:]: os.close(fd)
n = 0
try:
    while n < 5000:
        if os.fork() == 0: time.sleep(100)
        n += 1
except OSError as e:
    R["fork"] = outcome(e)
R["n"] = n
print(json.dumps(R), flush=True)
os._exit(44)
'''), ['--pids', '100', '--nofile', '300'], timeout=40)
    equal(r.code, 44, f'exit: {r}')
    got = w.parse(r)
    equal((got['files'], got['fork']), ('EMFILE', 'EAGAIN'), 'limits')
    check(got['n'] < 105, 'processes', got['n'])


if __name__ == '__main__':
    main()
