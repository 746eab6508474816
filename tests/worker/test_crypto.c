/* Cryptography in workers as they run: forked from one zygote, in the jail. */
#include "harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#define WORKERS 4

static struct zygote_process zygote;

static int open_zygote(void **state)
{
    (void)state;
    zygote_open(&zygote);
    return 0;
}

static int close_zygote(void **state)
{
    (void)state;
    zygote_close(&zygote);
    return 0;
}

/* What `source` gives in each of some workers; each must be something else. */
static void differs_between_workers(const char *source)
{
    char seen[WORKERS][256];
    for (int i = 0; i < WORKERS; i++) {
        struct peer p;
        peer_open(&p, &zygote, NULL, NULL);
        snprintf(seen[i], sizeof seen[i], "%s", peer_eval(&p, 0, source));
        peer_close(&p);
        assert_true(strlen(seen[i]) >= 32);
        assert_int_not_equal(seen[i][0], '!');
        for (int j = 0; j < i; j++)
            assert_string_not_equal(seen[i], seen[j]);
    }
}

static void random_values_do_not_repeat_in_another_worker(void **state)
{
    (void)state;
    differs_between_workers("const b = new Uint8Array(32); T.natives.random(b); b.toHex()");
}

static void generated_keys_do_not_repeat_in_another_worker(void **state)
{
    (void)state;
    differs_between_workers(
        "const c = T.natives.crypto; new Uint8Array(c.keyExport(0, c.keyPublic(c.keyGenerate(2)))).toHex()");
    differs_between_workers(
        "const c = T.natives.crypto; new Uint8Array(c.keyExport(0, c.keyPublic(c.keyGenerate(5)))).toHex()");
    differs_between_workers("const c = T.natives.crypto; "
                            "new Uint8Array(c.keyParts(c.keyGenerate(1, 512, 65537))[0]).toHex()");
}

/* ECDSA takes a random number that must never come twice: the same key and text, from two workers. */
static void signatures_do_not_repeat_in_another_worker(void **state)
{
    (void)state;
    differs_between_workers(
        "const c = T.natives.crypto, h = (t) => Uint8Array.fromHex(t); const k = c.keyFromParts(2, "
        "h('60fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6'), "
        "h('7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299'), "
        "h('c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721')); "
        "new Uint8Array(c.sign(k, 2, 3, 0, new Uint8Array(4))).toHex()");
}

/* Every algorithm once, so that none needs a system call that the jail refuses. */
static void everything_works_in_the_jail(void **state)
{
    (void)state;
    struct peer p;
    peer_open(&p, &zygote, NULL, NULL);
    assert_string_equal(
        peer_eval(
            &p, 0,
            "const c = T.natives.crypto, z = T.natives.zlib, b = new Uint8Array(16);\n"
            "for (let i = 0; i < 6; i++) { c.hash(i, b); c.hmac(i, b, b); c.hkdf(i, b, b, b, 16); "
            "c.pbkdf2(i, b, b, 10, 16); }\n"
            "c.scrypt(b, b, 1024, 8, 1, 1 << 25, 16);\n"
            "c.aesKw(true, b, b); c.aesCbc(true, b, b, b); c.aesCtr(b, b, 64, b); c.aesGcm(true, b, b, b, "
            "16, b);\n"
            "for (const kind of [1, 2, 3, 4, 5, 6]) {\n"
            "  const own = c.keyGenerate(kind, 1024, 65537), pub = c.keyPublic(own);\n"
            "  c.keyImport(2, kind, new Uint8Array(c.keyExport(2, own)));\n"
            "  c.keyImport(1, kind, new Uint8Array(c.keyExport(1, pub)));\n"
            "  for (const scheme of kind === 1 ? [0, 1] : kind === 5 ? [3] : kind === 6 ? [] : [2]) {\n"
            "    const made = new Uint8Array(c.sign(own, scheme, 3, 20, b));\n"
            "    if (!c.verify(pub, scheme, 3, 20, made, b)) throw new Error('signature of ' + kind);\n"
            "  }\n"
            "  if (kind === 1) c.rsaOaep(false, own, 3, b, new Uint8Array(c.rsaOaep(true, pub, 3, b, b)));\n"
            "  else if (kind !== 5) c.agree(own, pub);\n"
            "}\n"
            "for (const format of [0, 1, 2]) {\n"
            "  const pack = z.open(true, format), unpack = z.open(false, format);\n"
            "  z.push(pack, b); z.push(unpack, new Uint8Array(z.pull(pack, true)));\n"
            "  if (z.pull(unpack, true).byteLength !== 16) throw new Error('format ' + format);\n"
            "}\n"
            "'done'"),
        "done");
    peer_close(&p);
    assert_true(WIFEXITED(p.status) && WEXITSTATUS(p.status) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_values_do_not_repeat_in_another_worker),
        cmocka_unit_test(generated_keys_do_not_repeat_in_another_worker),
        cmocka_unit_test(signatures_do_not_repeat_in_another_worker),
        cmocka_unit_test(everything_works_in_the_jail),
    };
    return cmocka_run_group_tests(tests, open_zygote, close_zygote);
}
