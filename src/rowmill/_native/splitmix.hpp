// SplitMix64 (Steele, Lea and Flood 2014): a counter put through a mixing function, so there is no state to carry.
#pragma once

#include <cstdint>

namespace rowmill {

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15u;  // 2^64 divided by the golden ratio

inline std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

}  // namespace rowmill
