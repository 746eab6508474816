#!/usr/bin/python3
"""Group D: images and layers, end to end by `cloister image import` and a run of what was accepted."""
import gzip
import hashlib
import json
import os
import subprocess

from harness import check, equal, one_of, main, test
from oci import (Entry, Layer, RawLayer, box_image, digest, docker_archive, gzip_zeros, header, image, layout, padded, payload,
                 save, skeleton, sparse, tar, try_import, up)


def stored(w):
    """Everything that an import may leave, without the built-in image's layer."""
    found = set()
    for part in ('layers', 'images', 'refs', 'tmp'):
        d = os.path.join(w.data, part)
        if os.path.isdir(d):
            found |= {f'{part}/{n}' for n in os.listdir(d) if not n.startswith('host')}
    return found


def collect(w):
    """What nothing names any more goes at once."""
    r = w.tool('image', 'gc', '--grace', '0s')
    equal(r.code, 0, f'image gc: {r}')


def refused(w, data, *words, code=125, **how):
    """The import fails with our own status and a message that holds one of the words, and leaves nothing."""
    before = stored(w)
    name, r = try_import(w, data, **how)
    equal(r.code, code, f'exit: {r}')
    check(not words or any(x.lower() in r.errtext.lower() for x in words), f'the message holds none of {words}:', r.errtext)
    check('\n' not in r.errtext.strip() or len(r.errtext) < 4000, 'a very long message', r.errtext[:500])
    check(not any(ord(c) < 32 and c not in '\n\t\r' for c in r.errtext), 'control characters in the message', r.errtext[:300])
    left = stored(w) - before
    # Whole, verified layers before the bad one may stay for the collector; nothing else.
    equal(sorted(x for x in left if not x.startswith('layers/')), [], 'left in the store')
    if left:
        collect(w)
        equal(sorted(stored(w) - before), [], 'left after gc')
    equal(w.run(['/box', 'echo', 'x'], ['--image', name]).code, 125, 'the image is there')
    w.check_canaries()
    return r


def accepted(w, data, **how):
    name, r = try_import(w, data, **how)
    check(r.code == 0, 'refused:', r)
    w.check_canaries()
    return name


def either(w, data, *words):
    """Refused with a reason, or accepted with everything inside its root; the name when accepted."""
    before = stored(w)
    name, r = try_import(w, data)
    w.check_canaries()
    one_of(r.code, (0, 125), f'exit: {r}')
    if r.code == 0:
        return name
    check(r.err.strip(), 'refused without a message')
    check(not words or any(x in r.errtext for x in words), f'the message names none of {words}:', r.errtext)
    equal(sorted(x for x in stored(w) - before if not x.startswith('layers/')), [], 'left in the store')
    return None


def find(w, name, top='/'):
    r = w.run(['/box', 'find', top], ['--image', name])
    equal(r.code, 0, f'find: {r}')
    return r.out.decode('utf-8', 'surrogateescape').splitlines()


def one_layer(entries, **how):
    return layout([Layer(skeleton() + entries)], **how)


@test('D1 names with "..", in the middle and at the end: refused or inside the root, nothing on the host; twin: dots that are no parts')
def d1_dots(w):
    for raw in (up(w.outside) + '/up', 'a/../..' + w.outside + '/mid', 'a/..', '..', 'tmp/../../' + up(w.outside) + '/x', './../x',
                'a/b/..'):
        either(w, one_layer([Entry.dir('a'), Entry.file(raw, 'bad')]), '..')
        either(w, one_layer([Entry.dir('a'), Entry.dir(raw)]), '..')
    name = accepted(w, one_layer([Entry.file('./tmp/..x', '1'), Entry.file('tmp/x..', '2'), Entry.file('tmp/...', '3'),
                                  Entry.file('tmp//double', '4')]))
    lines = find(w, name, '/tmp')
    equal(sorted(lines), ['f /tmp/...', 'f /tmp/..x', 'f /tmp/double', 'f /tmp/x..'], 'twin')


@test('D1 absolute names: inside the root; names with NUL, empty, only slashes: data or refused; twin: the absolute file is read')
def d1_absolute(w):
    name = either(w, one_layer([Entry.file(w.outside + '/abs', 'in'), Entry.file('//abs2', 'in2')]))
    if name:
        equal(w.run(['/box', 'cat', w.outside + '/abs'], ['--image', name]).text, 'in', 'twin')
    for raw in (b'', b'/', b'.', b'./', b'a\0b', b'\0x'):
        either(w, one_layer([Entry(raw, b'0', b'data')]))
        either(w, one_layer([Entry('named', b'0', b'data', pax={b'path': raw})]))


@test('D1 names of 256, 4,096 and 65,536 bytes: refused and said; twin: 255 bytes and non-UTF-8 bytes are kept exactly')
def d1_long(w):
    for raw in (b'n' * 256, b'd/' * 2100 + b'f', b'x' * 65536, b'd' * 200 + b'/' + b'y' * 70000):
        refused(w, one_layer([Entry.file(raw, 'x')]), 'name', 'long', 'path', 'deep', 'header', 'bytes')
    odd = b'caf\xe9\xff-\xc3\xa9'
    name = accepted(w, one_layer([Entry.file(b'tmp/' + b'n' * 255, 'x'), Entry.file(b'tmp/' + odd, 'y')]))
    lines = find(w, name, '/tmp')
    check('f /tmp/' + 'n' * 255 in lines, 'twin: 255', lines)
    check('f /tmp/' + odd.decode('utf-8', 'surrogateescape') in lines, 'twin: bytes', lines)


@test('D2 a symlink to the host, then writes through it, in the same layer and in a later one: never outside; twin: relative links work')
def d2(w):
    for target in (w.outside, up(w.outside), '/proc/self/cwd', '/proc/self/root' + w.outside, '/proc/1/cwd'):
        for through in (Entry.file('door/in', 'bad'), Entry.dir('door/sub'), Entry.link('door/l', 'x'), Entry.hard('door/h', 'box'),
                        Entry.file('door', 'replaces')):
            either(w, one_layer([Entry.link('door', target), through]))
            either(w, layout([Layer(skeleton() + [Entry.link('door', target)]), Layer([through])]))
    either(w, one_layer([Entry.link('a', 'b'), Entry.link('b', w.outside), Entry.file('a/x', 'bad')]))
    either(w, one_layer([Entry.dir('d'), Entry.link('d/up', '../..'), Entry.file('d/up/up/up' + w.outside + '/x', 'bad')]))
    either(w, one_layer([Entry.link('loop', 'loop'), Entry.file('loop/x', 'bad')]))
    name = accepted(w, one_layer([Entry.dir('lib'), Entry.link('lib64', '../../../lib'), Entry.file('lib/x', 'd')]))
    equal(w.run(['/box', 'cat', '/lib64/x'], ['--image', name]).text, 'd', 'twin')


@test('D2 hard links to the host (absolute, "..", through a symlink, to a directory, forward): refused, link counts stay; twin: inside')
def d2_hard(w):
    for target in (w.secret_files[0], up(w.secret_files[0]), 'door/' + os.path.basename(w.secret_files[0]), '/etc/hostname', 'tmp',
                   'later', 'self', '..', ''):
        name = either(w, one_layer([Entry.link('door', w.base), Entry.hard('self', 'self') if target == 'self' else
                                    Entry.hard('peek', target), Entry.file('later', 'x')]))
        if name:
            r = w.run(['/box', 'cat', '/peek'], ['--image', name])
            check(w.secret not in r.text, 'the host\'s file is in the image')
    name = accepted(w, one_layer([Entry.file('one', 'same'), Entry.hard('two', 'one'), Entry.hard('three', '/one')]))
    for n in ('/two', '/three'):
        equal(w.run(['/box', 'cat', n], ['--image', name]).text, 'same', 'twin')
    check('links 3' in w.run(['/box', 'stat', '/two'], ['--image', name]).text, 'twin: one inode')


@test('D4 whiteouts: of "..", ".", through a symlinked directory, as hard link or directory, of /dev, opaque root: inside the merge only; '
      'twin: plain whiteout, opaque directory')
def d4(w):
    base = skeleton() + [Entry.dir('keep'), Entry.file('keep/a', 'a'), Entry.dir('gone'), Entry.file('gone/b', 'b'),
                         Entry.link('way', w.outside), Entry.link('etcway', 'etc'), Entry.file('single', 's')]
    marker = os.path.join(w.outside, 'marker')
    open(marker, 'w').write('here')
    try:
        for e in (Entry.file('.wh...'), Entry.file('.wh..'), Entry.file('.wh.'), Entry.file('way/.wh.marker'),
                  Entry.file('way/.wh..wh..opq'), Entry.file('.wh..wh..opq/x'), Entry.hard('.wh.keep', 'box'), Entry.dir('.wh.keep'),
                  Entry.link('.wh.keep', w.outside), Entry.file('.wh.keep/a'), Entry.file('keep/.wh.../x'), Entry.file('.wh..wh.x'),
                  Entry.file('.wh..wh.plnk'), Entry.file('../.wh.x'), Entry.file('.wh.' + 'n' * 252)):
            _, r = try_import(w, layout([Layer(base), Layer([e])]))
            one_of(r.code, (0, 125), f'{e.name}: {r}')
            check(open(marker).read() == 'here', 'a whiteout reached the host')
    finally:
        os.unlink(marker)
    name = image(w, [base, [Entry.file('.wh.dev'), Entry.file('.wh.proc')]])
    equal(w.run(['/box', 'stat', '/dev/null'], ['--image', name]).code, 0, '/dev is there though deleted')
    name = image(w, [base, [Entry.file('.wh.single'), Entry.file('.wh.gone'), Entry.dir('keep'), Entry.file('keep/.wh..wh..opq'),
                            Entry.file('keep/c', 'c')]])
    lines = find(w, name)
    equal([l for l in lines if 'keep' in l or 'gone' in l or 'single' in l], ['d /keep', 'f /keep/c'], 'twin')
    # An opaque root hides all below, /box too: then nothing can be started, and that is said.
    name, r = try_import(w, layout([Layer(base), Layer([Entry.file('.wh..wh..opq'), Entry.file('only', 'x')])]))
    if r.code == 0:
        r = w.run(['/box', 'echo', 'x'], ['--image', name])
        equal(r.code, 127, f'opaque root: {r}')


@test('D5 device, FIFO and socket entries: not made, what has that name stays; setuid kept but inert; trusted and security attributes '
      'dropped; twin: user attributes, modes and owners')
def d5(w):
    name = accepted(w, one_layer([
        Entry.file('victim', 'stays'), Entry.node('victim', 'c', 1, 3), Entry.node('disk', 'b', 8, 0), Entry.node('mem', 'c', 1, 1),
        Entry.node('zero-dev', 'c', 0, 0), Entry.node('pipe', 'p'),
        Entry('strange', b'7', b''), Entry.file('attr', 'x', pax={b'SCHILY.xattr.user.ok': b'1', b'SCHILY.xattr.trusted.t': b'1',
                                                                   b'SCHILY.xattr.security.selinux': b'x',
                                                                   b'SCHILY.xattr.security.capability': b'\1\0\0\2' + bytes(16),
                                                                   b'SCHILY.xattr.system.posix_acl_access': b'x'}),
        Entry.file('owned', 'x', 0o640, uid=1000, gid=2000)]))
    lines = find(w, name)
    bad = [l for l in lines if l[0] in 'cbs' and not l[2:].startswith('/dev')]
    equal(bad, [], 'nodes')
    check('f /victim' in lines, 'the file that a device would replace', lines)
    check(not any(l.endswith(('/disk', '/mem', '/zero-dev')) for l in lines), 'device names', lines)
    equal(w.run(['/box', 'cat', '/victim'], ['--image', name]).text, 'stays', 'the file')
    equal(w.run(['/box', 'xattrs', '/attr'], ['--image', name]).text.split(), ['user.ok'], 'attributes')
    r = w.run(['/box', 'stat', '/owned'], ['--image', name])
    check('0640' in r.text, f'twin: mode: {r}')
    if w.mode == 'root':
        check('1000:2000' in r.text, f'twin: owner: {r}')


def zstd_frame(data, window_log):
    """A zstd frame of raw blocks that asks for a window of any size (RFC 8878, 3.1.1)."""
    out = b'\x28\xb5\x2f\xfd\0' + bytes([window_log - 10 << 3])
    for at in range(0, len(data), 65536):
        piece = data[at:at + 65536]
        out += (len(piece) << 3 | (at + 65536 >= len(data))).to_bytes(3, 'little') + piece
    return out


def disk_used(top):
    """Of this directory alone: others use the machine too."""
    return sum(os.lstat(os.path.join(d, f)).st_blocks * 512 for d, _, files in os.walk(top) for f in files)


BOMBS = {
    'gzip, one file of 8 GiB of zeros': lambda w: RawLayer(
        gzip_zeros(header(b'zeros', b'0', 8 << 30, 0o644, b'', 0, 0, (0, 0), 0), 8 << 30, bytes(1024)), 'sha256:' + '0' * 64),
    'gzip after the end of the archive': lambda w: RawLayer(gzip_zeros(tar([Entry.file('x', 'x')]), 8 << 30), 'sha256:' + '0' * 64),
    'gzip in gzip': lambda w: RawLayer(gzip.compress(gzip_zeros(b'', 1 << 28), 9), 'sha256:' + '0' * 64),
}


@test('D6 bombs: gzip of 8 GiB, padding after the end, nested gzip, zstd with a 2 GiB window, a sparse terabyte: refused in seconds, '
      'memory and disk flat, nothing left; twin: an image with a large but honest file')
def d6(w):
    for kind, make in BOMBS.items():
        before = disk_used(w.data)
        r = refused(w, layout([Layer(skeleton()), make(w)]), timeout=120)
        check(r.seconds < 60, f'{kind}: {r.seconds:.0f} s')
        check(disk_used(w.data) - before < 64 << 20, f'{kind}: disk stays used')
    small = {'CLOISTER_IMAGE_LAYER_BYTES': '64M'}
    r = refused(w, layout([Layer(skeleton() + [Entry.file('big', b'\1' * (80 << 20))])]), 'byte', 'large', 'limit', 'size', env=small)
    sparse_tar = tar(skeleton())[:-1024] + sparse('terabyte', 1 << 40) + bytes(1024)
    r = refused(w, layout([Layer(sparse_tar)]), 'byte', 'large', 'limit', 'size', 'sparse')
    check(r.seconds < 10, f'sparse: {r.seconds:.0f} s')
    refused(w, layout([Layer(skeleton() + [Entry('lies', b'0', b'', size=1 << 60)])]))
    refused(w, layout([Layer(skeleton() + [Entry('lies', b'0', b'x', size=(1 << 63) - 1)])]))
    refused(w, layout([RawLayer(zstd_frame(tar(skeleton()), 31), digest(tar(skeleton())), 'application/vnd.oci.image.layer.v1.tar+zstd')]))
    name = accepted(w, layout([RawLayer(zstd_frame(tar(skeleton()), 23), digest(tar(skeleton())),
                                        'application/vnd.oci.image.layer.v1.tar+zstd')]))
    equal(w.run(['/box', 'echo', 'z'], ['--image', name]).text, 'z\n', 'twin: zstd')
    if os.path.exists('/usr/bin/zstd'):
        packed = subprocess.run(['zstd', '-q', '-c'], input=tar(skeleton()), stdout=subprocess.PIPE, check=True).stdout
        name = accepted(w, layout([RawLayer(packed, digest(tar(skeleton())), 'application/vnd.oci.image.layer.v1.tar+zstd')]))
        equal(w.run(['/box', 'echo', 'z'], ['--image', name]).text, 'z\n', 'twin: compressed zstd')
    name = accepted(w, one_layer([Entry.file('honest', os.urandom(1 << 20) * 20)]), env=small)
    check('size 20971520' in w.run(['/box', 'stat', '/honest'], ['--image', name]).text, 'twin')


@test('D8 too many entries, layers, directory levels: refused at the caps, nothing left; twin: just below them')
def d8(w):
    few = {'CLOISTER_IMAGE_LAYER_ENTRIES': '2000'}
    many = [Entry.file(f'tmp/{i}') for i in range(2100)]
    refused(w, one_layer(many), 'entries', 'files', 'limit', env=few)
    same = [Entry.file('tmp/same') for i in range(2100)]
    refused(w, one_layer(same), 'entries', 'files', 'limit', env=few)
    name = accepted(w, one_layer(many[:1900]), env=few)
    equal(len(find(w, name, '/tmp')), 1900, 'twin: entries')
    layers = [Layer(skeleton())] + [Layer([Entry.file(f'tmp/{i}', str(i))]) for i in range(1000)]
    refused(w, layout(layers), 'layers')
    deep = '/'.join('d' for _ in range(2000))
    refused(w, one_layer([Entry.file(deep, 'x')]), 'deep', 'depth', 'directories', 'levels')
    name = accepted(w, layout(layers[:40]))
    equal(len(find(w, name, '/tmp')), 39, 'twin: layers')
    name = accepted(w, one_layer([Entry.file('/'.join('d' for _ in range(200)), 'x')]))
    equal(len(find(w, name, '/d')), 199, 'twin: depth')


@test('D9 digest and size: changed layer, manifest, config; wrong size; wrong diff id; algorithm confusion: refused before use; twin: honest')
def d9(w):
    layer = Layer(skeleton() + [Entry.file('mark', 'honest')])
    evil = Layer(skeleton() + [Entry.file('mark', 'evil')])

    def swap(d, blob):
        return lambda parts: parts['blobs'].update({d: blob})

    def blob_of_layer(parts):
        parts['blobs'][digest(layer.blob)] = evil.blob

    def late(f):
        return lambda parts: parts.update(late=f)

    def spoil(which):
        def change(parts):
            def at_end(p):
                for d, blob in list(p['blobs'].items()):
                    if which(blob):
                        p['blobs'][d] = blob.replace(b'amd64', b'amd65').replace(b'schemaVersion": 2', b'schemaVersion": 2 ')
            parts['late'] = at_end
        return change
    cases = {
        'layer': blob_of_layer,
        'config': spoil(lambda b: b'"diff_ids"' in b),
        'manifest': spoil(lambda b: b'"layers"' in b and b'"config"' in b and b'"diff_ids"' not in b),
        'layer size': lambda p: p['layers'][0].update(size=len(layer.blob) - 1),
        'layer size 0': lambda p: p['layers'][0].update(size=0),
        'negative size': lambda p: p['layers'][0].update(size=-1),
        'manifest size': lambda p: p['descriptor'].update(size=5),
        'diff id': lambda p: p['config']['rootfs'].update(diff_ids=['sha256:' + 'a' * 64]),
        'too few diff ids': lambda p: p['config']['rootfs'].update(diff_ids=[]),
        'too many diff ids': lambda p: p['config']['rootfs'].update(diff_ids=[layer.diff] * 2),
        'sha512 of nothing': lambda p: p['layers'][0].update(digest='sha512:' + 'b' * 128),
        'md5': lambda p: p['layers'][0].update(digest='md5:' + 'c' * 32),
        'digest with a path': lambda p: p['layers'][0].update(digest='sha256:../../../../etc/passwd'),
        'digest in capitals': lambda p: p['layers'][0].update(digest=digest(layer.blob).upper()),
        'short digest': lambda p: p['layers'][0].update(digest=digest(layer.blob)[:20]),
        'missing blob': lambda p: p['layers'].append({'mediaType': layer.media, 'digest': 'sha256:' + 'd' * 64, 'size': 5}),
        'no digest': lambda p: p['layers'][0].pop('digest'),
    }
    for kind, change in cases.items():
        before = stored(w)
        name, r = try_import(w, layout([layer], change=change))
        equal(r.code, 125, f'{kind}: {r}')
        check(r.err.strip(), kind + ': no message')
        equal(sorted(stored(w) - before), [], f'{kind}: left in the store')
    # the same blob stored honestly, then an archive that claims its digest for other bytes
    name = accepted(w, layout([layer]))
    _, r = try_import(w, layout([layer], change=blob_of_layer))
    equal(w.run(['/box', 'cat', '/mark'], ['--image', name]).text, 'honest', f'twin, after: {r}')


@test('D10 index loops, nested indexes, foreign layer URLs, unknown media types: refused, nothing is fetched; twin: an index of depth 1')
def d10(w):
    layer = Layer(skeleton())
    port = w.listeners['tcp4'].address[1]

    def loop(described, parts):
        own = json.dumps({'schemaVersion': 2, 'manifests': []}).encode()
        for _ in range(50):
            d = digest(own)
            parts['blobs'][d] = own
            own = json.dumps({'schemaVersion': 2, 'mediaType': 'application/vnd.oci.image.index.v1+json', 'manifests': [
                {'mediaType': 'application/vnd.oci.image.index.v1+json', 'digest': d, 'size': len(parts['blobs'][d])}]}).encode()
        return json.loads(own)

    refused(w, layout([layer], change=lambda p: p.update(index=loop)))
    refused(w, layout([layer], change=lambda p: p.update(index=lambda d, parts: {
        'schemaVersion': 2, 'manifests': [dict(d, mediaType='application/vnd.oci.image.index.v1+json')]})))
    for url in (f'http://127.0.0.1:{port}/layer', 'file://' + w.secret_files[0], 'http://169.254.169.254/latest/meta-data'):
        refused(w, layout([layer], change=lambda p: (p['layers'].append(
            {'mediaType': 'application/vnd.oci.image.layer.nondistributable.v1.tar+gzip', 'digest': 'sha256:' + 'e' * 64, 'size': 9,
             'urls': [url]}), p['config']['rootfs']['diff_ids'].append('sha256:' + 'e' * 64))))
    for media in ('application/vnd.oci.image.layer.v1.tar+gzip+encrypted', 'application/vnd.oci.image.layer.v1.tar+encrypted'):
        refused(w, layout([layer], change=lambda p: p['layers'][0].update(mediaType=media)))
    for raw in (b'', b'{', b'[]', b'null', b'{"layers": 5}', b'[' * 100000, b'{"config": {"digest": 7}, "layers": {}}', b'\xff\xfe'):
        refused(w, layout([layer], change=lambda p: p.update(raw_manifest=raw or b' ')))
        refused(w, layout([layer], change=lambda p: p.update(raw_config=raw or b' ')))
    name = accepted(w, layout([layer]))
    equal(w.run(['/box', 'echo', 'x'], ['--image', name]).text, 'x\n', 'twin')


@test('D10 pull from an address that is no registry, file: and link-local references: refused with a reason; twin: the name is in it')
def d10_pull(w):
    for ref in ('file:///etc/passwd', 'docker://x/../..', '-oProxy=x', 'dir:/etc', 'oci:/etc', 'containers-storage:x', 'a b',
                'docker-archive:' + w.secret_files[0], '--help-me', 'x' * 5000, 'a\nb', ''):
        r = w.tool('image', 'pull', '--', ref, timeout=60)
        equal(r.code, 125, f'{ref[:50]!r}: {r}')
        check(r.err.strip() and w.secret not in r.errtext, 'message', r)


@test('D12 image config: PATH with newline, NUL in Entrypoint, a megabyte of Env, wrong types, huge User: refused or exact; twin: Env, '
      'Entrypoint, Cmd, WorkingDir, User honoured')
def d12(w):
    def configured(**config):
        return layout([Layer(skeleton())], config=config)
    for config in (dict(Env=['A=' + 'x' * (2 << 20)]), dict(Env=[f'V{i}=' + 'x' * 1000 for i in range(3000)]), dict(Env='A=1'),
                   dict(Env=[1]), dict(Env=['=x']), dict(Env=['NOEQUALS']), dict(Env=['A\0B=1']), dict(Entrypoint=['a\0b']),
                   dict(Entrypoint='sh'), dict(Entrypoint=[['x']]), dict(Cmd=['x' * (2 << 20)]), dict(WorkingDir=5),
                   dict(WorkingDir='/a\0b'), dict(User='a' * 100000), dict(User={'x': 1}), dict(User='0\0x')):
        before = stored(w)
        name, r = try_import(w, configured(**config))
        one_of(r.code, (0, 125), f'{str(config)[:80]}: {r}')
        if r.code == 125:
            check(r.err.strip(), 'no message')
            equal(sorted(stored(w) - before), [], 'left')
        else:
            r = w.run(['/box', 'env'], ['--image', name])
            one_of(r.code, (0, 125, 126, 127), f'{str(config)[:80]}: {r}')
    for user in ('nosuch', '4294967296', '-1', '99999999999999999999', '0:nosuch', ':', 'root:4294967295', '../../etc/passwd', '%s%n'):
        name, r = try_import(w, configured(User=user))
        if r.code == 125:
            check('User' in r.errtext, f'User {user}: {r}')
            continue
        r = w.run(['/box', 'id'], ['--image', name])
        check(r.code == 125 and ('user' in r.errtext.lower() or 'group' in r.errtext), f'User {user}: {r}')
    name = accepted(w, configured(Env=['PATH=/a\n/b', 'X=1\nY=2', 'EMPTY='], Volumes={'/': {}, '/etc': {}}, ExposedPorts={'22/tcp': {}}))
    r = w.run(['/box', 'env'], ['--image', name])
    check(r.code == 0 and 'PATH=/a\n/b' in r.text and 'X=1\nY=2' in r.text, f'newlines are data: {r}')
    name = accepted(w, configured(Env=['GREETING=hello', 'PATH=/'], Entrypoint=['/box', 'exec', '/box'], Cmd=['env'], WorkingDir='/tmp',
                                  User='ann'))
    r = w.run([], ['--image', name])
    check(r.code == 0 and 'GREETING=hello' in r.text, f'twin: {r}')
    name = accepted(w, configured(Cmd=['/box', 'id'], User='ann'))
    r = w.run([], ['--image', name])
    check(r.text.startswith('uid 1000 euid 1000 gid 1000'), f'twin: User: {r}')
    name = accepted(w, configured(Cmd=['/box', 'pwd'], WorkingDir='/etc'))
    equal(w.run([], ['--image', name]).text, '/etc\n', 'twin: WorkingDir')


@test('D12 passwd and group of an image as FIFO, symlink to the host, endless line, a gigabyte hole: bounded and typed; twin: names resolve')
def d12_passwd(w):
    long = b'x' * (1 << 20) + b':x:5:5::/:/box\n'
    lines = b''.join(b'u%d:x:%d:%d::/:/box\n' % (i, i + 5000, i + 5000) for i in range(20000))
    for e in (Entry.link('etc/passwd', w.secret_files[0]), Entry.link('etc/passwd', '/proc/self/fd/3'), Entry.link('etc/passwd', '/dev/zero'),
              Entry.file('etc/passwd', long), Entry.file('etc/passwd', b'ann:x:-5:99999999999::/:\nann:x\n\n:::::::\n' + bytes(5000)),
              Entry.dir('etc/passwd'), Entry.file('etc/group', b'ann:x:1000:' + b'ann,' * 300000)):
        base = [x for x in skeleton() if x.name != e.name]
        name = image(w, [base + [e]])
        r = w.run(['/box', 'id'], ['--image', name, '-u', 'ann'], timeout=30)
        one_of(r.code, (0, 125, 126), f'{e.name} {e.kind} {e.target}: {r}')
        check(r.seconds < 10, 'slow', r)
        check(w.secret not in r.text + r.errtext, 'the secret came out')
    base = [x for x in skeleton() if x.name != b'etc/passwd']
    name = image(w, [base + [Entry.file('etc/passwd', lines + b'ann:x:1000:1000::/tmp:/box\n')]])
    r = w.run(['/box', 'id'], ['--image', name, '-u', 'ann'])
    check(r.text.startswith('uid 1000 '), f'twin: {r}')


@test('D14 the same tricks in a docker archive and in a plain root file system tar: same refusals; twin: both are imported and run')
def d14(w):
    tricks = [[Entry.file(up(w.outside) + '/up', 'bad')], [Entry.link('door', w.outside), Entry.file('door/in', 'bad')],
              [Entry.hard('peek', up(w.secret_files[0]))], [Entry.node('disk', 'b', 8, 0)]]
    for trick in tricks:
        either(w, tar(skeleton() + trick))
        either(w, gzip.compress(tar(skeleton() + trick)))
        either(w, docker_archive([Layer(skeleton() + trick, None)]))
    layer = Layer(skeleton(), None)
    for names in (['../../../../' + w.outside.lstrip('/') + '/l'], [w.secret_files[0]], ['..'], ['']):
        either(w, docker_archive([layer], names=names))
    for change in (lambda m: m[0].update(Config='../../../etc/passwd'), lambda m: m[0].update(Config=w.secret_files[0]),
                   lambda m: m[0].update(Layers=[w.secret_files[0]]), lambda m: m[0].update(Layers=5), lambda m: m.clear(),
                   lambda m: m[0].update(Layers=['nosuch/layer.tar'])):
        refused(w, docker_archive([layer], change=change))
    for data in (b'', b'x' * 5000, bytes(10240), tar([]), gzip.compress(b''), b'\x1f\x8b' + bytes(100), tar(skeleton())[:3000], tar(skeleton())[:-30000]):
        refused(w, data)
    # links in the archive itself, in the place of its own parts
    links = tar([Entry.file('oci-layout', b'{"imageLayoutVersion": "1.0.0"}'), Entry.link('index.json', w.secret_files[0])])
    r = refused(w, links)
    check(w.secret not in r.errtext, 'the secret came out')
    links = tar([Entry.link('manifest.json', w.secret_files[0])])
    check(w.secret not in (try_import(w, links)[1].errtext), 'the secret came out')
    name = accepted(w, tar(skeleton()))
    equal(w.run(['/box', 'echo', 'tar'], ['--image', name]).text, 'tar\n', 'twin: root tar')
    name = accepted(w, docker_archive([layer]))
    equal(w.run(['/box', 'echo', 'docker'], ['--image', name]).text, 'docker\n', 'twin: docker archive')


@test('D14 image names: "..", absolute, newlines, leading "-", 1 MB, reserved: refused, nothing outside the store; twin: a plain name with tag')
def d14_names(w):
    data = one_layer([])
    for name in ('../../x', '/etc/x', 'a/../../b', 'a\nb', '-x', 'x' * 300, '.', '..', '', 'A B', 'a:b:c', 'host', 'a//b', 'a@sha256:zz', '%2e%2e',
                 'é', 'a\x1b[2Jb'):
        before = stored(w)
        path = save(w, data)
        r = w.tool('image', 'import', '--name=' + name, path)
        os.unlink(path)
        check(r.code == 125, f'{name!r} was taken: {r}')
        check('\x1b' not in r.errtext, 'raw escape in the message')
        equal(sorted(x for x in stored(w) - before if x.startswith('refs')), [], name)
    path = save(w, data)
    equal(w.tool('image', 'import', '--name', 'team/app:v1.2-x_y', path).code, 0, 'twin')
    os.unlink(path)
    equal(w.run(['/box', 'echo', 'x'], ['--image', 'team/app:v1.2-x_y']).text, 'x\n', 'twin')


@test('D14 kill -9 in the middle of an import: no half image, the next import works, gc clears what was left; twin: it runs')
def d14_kill(w):
    import time
    data = layout([Layer(skeleton() + [Entry.file(f'tmp/{i}', os.urandom(4096)) for i in range(3000)])])
    path = save(w, data)
    for delay in (0.02, 0.08, 0.2):
        p = w.popen([w.cloister, 'image', 'import', '--name', 'hostile/killed', path], stdout=-1, stderr=-1)
        time.sleep(delay)
        p.kill()
        p.communicate()
        r = w.run(['/box', 'find', '/tmp'], ['--image', 'hostile/killed'])
        check(r.code == 125 or len(r.text.splitlines()) == 3000, f'half an image after {delay} s: exit {r.code}, {len(r.text.splitlines())} files')
    r = w.tool('image', 'import', '--name', 'hostile/killed', path)
    equal(r.code, 0, f'next import: {r}')
    collect(w)
    os.unlink(path)
    equal(len(w.run(['/box', 'find', '/tmp'], ['--image', 'hostile/killed']).text.splitlines()), 3000, 'twin')


if __name__ == '__main__':
    main()
