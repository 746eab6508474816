#include "app/reach.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

struct block4 {
    uint32_t address;
    unsigned bits;
};

/* The IANA registry of special-purpose addresses, IPv4. */
static const struct block4 blocks4[] = {
    {0x00000000, 8},  /* this network */
    {0x0a000000, 8},  /* private */
    {0x64400000, 10}, /* carriers' */
    {0x7f000000, 8},  /* loopback */
    {0xa9fe0000, 16}, /* link-local, where the metadata services are */
    {0xac100000, 12}, /* private */
    {0xc0000000, 24}, /* protocol assignments */
    {0xc0000200, 24}, /* documentation */
    {0xc0586300, 24}, /* relays of 6to4 */
    {0xc0a80000, 16}, /* private */
    {0xc6120000, 15}, /* benchmarks */
    {0xc6336400, 24}, /* documentation */
    {0xcb007100, 24}, /* documentation */
    {0xe0000000, 4},  /* groups */
    {0xf0000000, 4},  /* reserved, broadcast */
};

static bool public4(uint32_t a)
{
    for (size_t i = 0; i < sizeof blocks4 / sizeof *blocks4; i++)
        if ((a ^ blocks4[i].address) >> (32 - blocks4[i].bits) == 0)
            return false;
    return a != 0xa83f8110; /* 168.63.129.16: a cloud's host, at a public-looking address */
}

static uint32_t word(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool public6(const uint8_t a[16])
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    static const uint8_t translated[12] = {0, 0x64, 0xff, 0x9b};
    if (memcmp(a, mapped, 12) == 0 || memcmp(a, translated, 12) == 0)
        return public4(word(a + 12));
    if (a[0] == 0x20 && a[1] == 0x02) /* 6to4 */
        return public4(word(a + 2));
    if (a[0] == 0x20 && a[1] == 0x01 && a[2] < 0x02) /* Teredo, benchmarks, ORCHID */
        return false;
    if (word(a) == 0x20010db8 || (a[0] == 0x3f && a[1] == 0xff && a[2] < 0x10)) /* documentation */
        return false;
    return a[0] >> 5 ==
           1; /* 2000::/3 is all that is global; loopback, mapped, local, link-local and groups lie outside */
}

bool reach_is_public(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return public4(ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr));
    if (a->sa_family == AF_INET6)
        return public6(((const struct sockaddr_in6 *)(const void *)a)->sin6_addr.s6_addr);
    return false;
}
