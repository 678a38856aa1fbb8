# SPDX-License-Identifier: Apache-2.0
"""llmtrain's random numbers (kernels/random/philox.h): functions of a key and an element's index alone."""
import numpy

MASK, LOW = (1 << 64) - 1, numpy.uint64(0xFFFFFFFF)


def philox(key, counters, high=0):
    """Philox 4x32-10 (Salmon et al., SC11): the four 32-bit words of each 64-bit counter, as uint64 [4, n]."""
    counters = numpy.asarray(counters, dtype=numpy.uint64)
    shift = numpy.uint64(32)
    words = [counters & LOW, counters >> shift, numpy.full_like(counters, high & 0xFFFFFFFF),
             numpy.full_like(counters, high >> 32)]
    keys = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        first, second = numpy.uint64(0xD2511F53) * words[0], numpy.uint64(0xCD9E8D57) * words[2]
        words = [second >> shift ^ words[1] ^ numpy.uint64(keys[0]), second & LOW,
                 first >> shift ^ words[3] ^ numpy.uint64(keys[1]), first & LOW]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return numpy.stack(words)


def site_key(seed, step, site):
    """Belongs to one site of a step, which is counted from 0; the site's number is the FNV-1a hash of its name."""
    number = 0xcbf29ce484222325
    for byte in site.encode():
        number = (number ^ byte) * 0x100000001b3 & MASK
    low, high = philox(seed, [step], number)[:2, 0]
    return int(low) | int(high) << 32


def uniform(key, count):
    """Numbers between -1 and 1, four per counter."""
    words = philox(key, numpy.arange(-(-count // 4))).T.reshape(-1)[:count]
    return (2.0 * words + 1) / 2.0 ** 32 - 1


def normal(key, count):
    """By Box and Muller's transform, two per counter."""
    words = philox(key, numpy.arange(-(-count // 2)))
    radius, turn = ((low | high << numpy.uint64(32)) >> numpy.uint64(12) for low, high in (words[:2], words[2:]))
    radius = numpy.sqrt(-2 * numpy.log(1 - radius * 2.0 ** -52))
    angle = 2 * numpy.pi * (turn * 2.0 ** -52)
    return numpy.stack((radius * numpy.cos(angle), radius * numpy.sin(angle)), -1).reshape(-1)[:count]
