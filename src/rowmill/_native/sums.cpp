// Exact sums of numbers and of their squares, in a superaccumulator (Kulisch 1986) of digits to the base 2^32.
//
// A digit is an int64, so carries can wait: two billion values fit before one overflows. Python puts the digits together.
#include "native.hpp"

#include <cmath>
#include <cstring>

namespace rowmill {

namespace {

constexpr std::uint64_t kDigit = 0xFFFFFFFFu;
constexpr std::size_t kLowDigits = 72, kHighDigits = 138;

// digits += sign * value * 2^position.
void add(std::int64_t* digits, std::uint64_t position, std::uint64_t value, std::int64_t sign) {
    std::int64_t* digit = digits + (position >> 5);
    const std::uint64_t shift = position & 31;
    const std::uint64_t low = (value & kDigit) << shift;
    const std::uint64_t high = ((value >> 32) << shift) + (low >> 32);
    digit[0] += sign * static_cast<std::int64_t>(low & kDigit);
    digit[1] += sign * static_cast<std::int64_t>(high & kDigit);
    digit[2] += sign * static_cast<std::int64_t>(high >> 32);
}

// digits += value^2 * 2^position.
void add_square(std::int64_t* digits, std::uint64_t position, std::uint64_t value) {
    const std::uint64_t low = value & kDigit, high = value >> 32;
    add(digits, position, low * low, 1);
    if (high) {
        add(digits, position + 33, low * high, 1);
        add(digits, position + 64, high * high, 1);
    }
}

// A finite number is sign * magnitude * 2^(position - 1074).
struct Parts {
    std::int64_t sign;
    std::uint64_t magnitude, position;
};

Parts parts_of(double value) {
    std::uint64_t bits;
    std::memcpy(&bits, &value, 8);
    std::uint64_t exponent = (bits >> 52) & 0x7FF, magnitude = bits & 0xFFFFFFFFFFFFFu;
    if (exponent) {
        magnitude |= std::uint64_t{1} << 52;
        --exponent;
    }
    if (!(magnitude & 0x1FFFFFFF)) {  // came from 32 bits: its square fits in 64
        magnitude >>= 29;
        exponent += 29;
    }
    return {bits >> 63 ? -1 : 1, magnitude, exponent};
}

Parts parts_of(std::uint64_t value) { return {1, value, 1074}; }

Parts parts_of(std::int64_t value) {
    const auto bits = static_cast<std::uint64_t>(value);
    return value < 0 ? Parts{-1, ~bits + 1, 1074} : Parts{1, bits, 1074};
}

template <class T>
std::pair<std::int64_t, std::int64_t> add_all(const T* values, std::size_t count, std::int64_t* low,
                                              std::int64_t* high) {
    std::int64_t finite = 0, infinite = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if constexpr (std::is_floating_point_v<T>)
            if (!std::isfinite(values[i])) {
                infinite += std::isinf(values[i]) ? 1 : 0;
                continue;
            }
        ++finite;
        const Parts parts = parts_of(values[i]);
        if (parts.magnitude) {
            add(low, parts.position, parts.magnitude, parts.sign);
            add_square(high, 2 * parts.position, parts.magnitude);
        }
    }
    return {finite, infinite};
}

}  // namespace

std::pair<std::int64_t, std::int64_t> add_powers(const Array& values, const MutableVector<std::int64_t>& low,
                                                 const MutableVector<std::int64_t>& high) {
    require(values.ndim() == 1 && contiguous_from(values, 0), "values that are not contiguous");
    require(low.shape(0) >= kLowDigits && high.shape(0) >= kHighDigits, "too few digits for a sum");
    const Kind kind = kind_of(values.dtype());
    const std::size_t count = values.shape(0);
    nb::gil_scoped_release unlocked;
    switch (kind) {
        case Kind::i64: return add_all(static_cast<const std::int64_t*>(values.data()), count, low.data(), high.data());
        case Kind::u64: return add_all(static_cast<const std::uint64_t*>(values.data()), count, low.data(), high.data());
        case Kind::f64: return add_all(static_cast<const double*>(values.data()), count, low.data(), high.data());
        default: throw std::invalid_argument("sums are of int64, uint64 or float64");
    }
}

}  // namespace rowmill
