// Prefetch, non-temporal stores and short copies. Each has a plain fallback for other compilers and processors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__) || defined(_M_X64)
#define ROWMILL_SSE2 1
#include <emmintrin.h>
#endif

namespace rowmill {

constexpr std::size_t kCacheLine = 64;

inline void prefetch_read(const void* address) {
#if defined(__GNUC__) || defined(__clang__)
    __builtin_prefetch(address, 0, 3);
#else
    (void)address;
#endif
}

inline void prefetch_write(void* address) {
#if defined(__GNUC__) || defined(__clang__)
    __builtin_prefetch(address, 1, 3);
#else
    (void)address;
#endif
}

// Copy one cache line to an aligned address without reading the target into the cache first.
inline void stream_cache_line(char* to, const char* from) {
#if defined(ROWMILL_SSE2)
    for (std::size_t at = 0; at < kCacheLine; at += 16) {
        const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at));
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), value);
    }
#else
    std::memcpy(to, from, kCacheLine);
#endif
}

// Make non-temporal stores visible to other threads.
inline void stream_fence() {
#if defined(ROWMILL_SSE2)
    _mm_sfence();
#endif
}

// memcpy for the few bytes of a row: inline, with a last step that may overlap the one before.
inline void copy_short(char* to, const char* from, std::size_t size) {
    if (size >= 32) {
        std::size_t at = 0;
        for (; at + 32 <= size; at += 32) std::memcpy(to + at, from + at, 32);
        std::memcpy(to + size - 32, from + size - 32, 32);
    } else if (size >= 16) {
        std::memcpy(to, from, 16);
        std::memcpy(to + size - 16, from + size - 16, 16);
    } else if (size >= 8) {
        std::memcpy(to, from, 8);
        std::memcpy(to + size - 8, from + size - 8, 8);
    } else {
        for (std::size_t at = 0; at < size; ++at) to[at] = from[at];
    }
}

// How a row is copied. With `widen` 2 it holds int32 values, which become int64.
struct AnyRow {
    std::size_t size, widen;
    void operator()(char* to, const char* from) const {
        if (widen == 1) {
            copy_short(to, from, size);
            return;
        }
        const auto* narrow = reinterpret_cast<const std::int32_t*>(from);
        auto* wide = reinterpret_cast<std::int64_t*>(to);
        for (std::size_t i = 0; i < size / 4; ++i) wide[i] = narrow[i];
    }
};

// A row whose size is known to the compiler. Rows in random order then took a tenth to a fifth less time.
template <std::size_t Size, std::size_t Widen>
struct FixedRow {
    void operator()(char* __restrict to, const char* __restrict from) const {
        if constexpr (Widen == 1) {
            std::memcpy(to, from, Size);
        } else {
            std::int32_t narrow[Size / 4];
            std::int64_t wide[Size / 4];
            std::memcpy(narrow, from, Size);
            for (std::size_t i = 0; i < Size / 4; ++i) wide[i] = narrow[i];
            std::memcpy(to, wide, 2 * Size);
        }
    }
};

// Call `function` with a `FixedRow` for sizes that tables have, or with an `AnyRow`.
template <std::size_t Words = 1, class Function>
void with_row(std::size_t size, std::size_t widen, Function function) {
    constexpr std::size_t kWords = 64;
    if constexpr (Words > kWords) {
        function(AnyRow{size, widen});
    } else if (size == 4 * Words) {
        if (widen == 1)
            function(FixedRow<4 * Words, 1>{});
        else
            function(FixedRow<4 * Words, 2>{});
    } else {
        with_row<Words + 1>(size, widen, function);
    }
}

}  // namespace rowmill
