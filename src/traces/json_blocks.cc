#include "json_blocks.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace attune::traces {
namespace {

#if defined(__x86_64__)

// Bits of the characters that follow an odd run of backslashes.
inline std::uint64_t Escaped(std::uint64_t backslash, std::uint64_t& carry) {
  if (backslash == 0) {
    const std::uint64_t escaped = carry;
    carry = 0;
    return escaped;
  }
  constexpr std::uint64_t kEven = 0x5555555555555555ull;
  backslash &= ~carry;
  const std::uint64_t follows = backslash << 1 | carry;
  const std::uint64_t odd_starts = backslash & ~kEven & ~follows;
  std::uint64_t even_runs = 0;
  carry = __builtin_add_overflow(odd_starts, backslash, &even_runs) ? 1 : 0;
  return (kEven ^ (even_runs << 1)) & follows;
}

struct RawMasks {
  std::uint64_t quote, backslash, open, close, control, high, letter;
};

inline void Combine(const RawMasks& raw, std::uint64_t inside_prefix, BlockState& state,
                    std::size_t i, std::uint64_t quote, const BlockMaps& maps) {
  const std::uint64_t inside = inside_prefix ^ state.in_string;
  state.in_string = static_cast<std::uint64_t>(static_cast<std::int64_t>(inside) >> 63);
  maps.quote[i] = quote;
  maps.open[i] = raw.open & ~inside;
  maps.close[i] = raw.close & ~inside;
  maps.odd[i] = raw.backslash | raw.high | (raw.control & inside) | (raw.letter & ~inside);
}

__attribute__((target("avx2,pclmul"))) void MarkAvx2(const char* bytes, std::size_t blocks,
                                                     BlockState& state, const BlockMaps& maps) {
  const __m256i quote = _mm256_set1_epi8('"');
  const __m256i backslash = _mm256_set1_epi8('\\');
  const __m256i lower = _mm256_set1_epi8(0x20);
  const __m256i open = _mm256_set1_epi8('{');   // '[' | 0x20
  const __m256i close = _mm256_set1_epi8('}');  // ']' | 0x20
  const __m256i letter_i = _mm256_set1_epi8('i');
  const __m256i letter_n = _mm256_set1_epi8('N');
  const __m256i control_top = _mm256_set1_epi8(0x1f);
  const auto mask = [](__m256i a, __m256i b) __attribute__((target("avx2"))) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(_mm256_movemask_epi8(a))) |
           static_cast<std::uint64_t>(static_cast<std::uint32_t>(_mm256_movemask_epi8(b))) << 32;
  };
  for (std::size_t i = 0; i < blocks; ++i) {
    const auto* at = reinterpret_cast<const __m256i*>(bytes + i * 64);
    const __m256i a = _mm256_loadu_si256(at);
    const __m256i b = _mm256_loadu_si256(at + 1);
    const __m256i al = _mm256_or_si256(a, lower);
    const __m256i bl = _mm256_or_si256(b, lower);
    RawMasks raw;
    raw.quote = mask(_mm256_cmpeq_epi8(a, quote), _mm256_cmpeq_epi8(b, quote));
    raw.backslash = mask(_mm256_cmpeq_epi8(a, backslash), _mm256_cmpeq_epi8(b, backslash));
    raw.open = mask(_mm256_cmpeq_epi8(al, open), _mm256_cmpeq_epi8(bl, open));
    raw.close = mask(_mm256_cmpeq_epi8(al, close), _mm256_cmpeq_epi8(bl, close));
    raw.control = mask(_mm256_cmpeq_epi8(_mm256_min_epu8(a, control_top), a),
                       _mm256_cmpeq_epi8(_mm256_min_epu8(b, control_top), b));
    raw.high = mask(a, b);
    raw.letter =
        mask(_mm256_or_si256(_mm256_cmpeq_epi8(al, letter_i), _mm256_cmpeq_epi8(a, letter_n)),
             _mm256_or_si256(_mm256_cmpeq_epi8(bl, letter_i), _mm256_cmpeq_epi8(b, letter_n)));
    const std::uint64_t quotes = raw.quote & ~Escaped(raw.backslash, state.escaped);
    const __m128i product = _mm_clmulepi64_si128(_mm_set_epi64x(0, static_cast<long long>(quotes)),
                                                 _mm_set1_epi8(static_cast<char>(0xff)), 0);
    Combine(raw, static_cast<std::uint64_t>(_mm_cvtsi128_si64(product)), state, i, quotes, maps);
  }
}

// SSE2 is part of every x86-64.
void MarkSse2(const char* bytes, std::size_t blocks, BlockState& state, const BlockMaps& maps) {
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i backslash = _mm_set1_epi8('\\');
  const __m128i lower = _mm_set1_epi8(0x20);
  const __m128i open = _mm_set1_epi8('{');
  const __m128i close = _mm_set1_epi8('}');
  const __m128i letter_i = _mm_set1_epi8('i');
  const __m128i letter_n = _mm_set1_epi8('N');
  const __m128i control_top = _mm_set1_epi8(0x1f);
  const auto mask = [](__m128i v) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(_mm_movemask_epi8(v)));
  };
  for (std::size_t i = 0; i < blocks; ++i) {
    RawMasks raw{};
    for (int part = 0; part < 4; ++part) {
      const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + i * 64) + part);
      const __m128i al = _mm_or_si128(a, lower);
      const int shift = part * 16;
      raw.quote |= mask(_mm_cmpeq_epi8(a, quote)) << shift;
      raw.backslash |= mask(_mm_cmpeq_epi8(a, backslash)) << shift;
      raw.open |= mask(_mm_cmpeq_epi8(al, open)) << shift;
      raw.close |= mask(_mm_cmpeq_epi8(al, close)) << shift;
      raw.control |= mask(_mm_cmpeq_epi8(_mm_min_epu8(a, control_top), a)) << shift;
      raw.high |= mask(a) << shift;
      raw.letter |= mask(_mm_or_si128(_mm_cmpeq_epi8(al, letter_i), _mm_cmpeq_epi8(a, letter_n)))
                    << shift;
    }
    const std::uint64_t quotes = raw.quote & ~Escaped(raw.backslash, state.escaped);
    std::uint64_t inside = quotes;
    for (int shift = 1; shift < 64; shift *= 2) inside ^= inside << shift;
    Combine(raw, inside, state, i, quotes, maps);
  }
}

#endif

// Byte by byte: the measure for the others, and what other machines run.
void MarkPlain(const char* bytes, std::size_t blocks, BlockState& state, const BlockMaps& maps) {
  bool in_string = state.in_string != 0;
  bool escaped = state.escaped != 0;
  for (std::size_t i = 0; i < blocks; ++i) {
    std::uint64_t quote = 0, open = 0, close = 0, odd = 0;
    for (int bit = 0; bit < 64; ++bit) {
      const char c = bytes[i * 64 + static_cast<std::size_t>(bit)];
      const auto byte = static_cast<unsigned char>(c);
      const std::uint64_t at = std::uint64_t{1} << bit;
      const bool is_escaped = escaped;
      escaped = false;
      if (byte >= 0x80) odd |= at;
      if (c == '\\') {
        odd |= at;
        escaped = !is_escaped;
      } else if (c == '"' && !is_escaped) {
        quote |= at;
        in_string = !in_string;
      } else if (in_string) {
        if (byte < 0x20) odd |= at;
      } else {
        if (c == '{' || c == '[') open |= at;
        if (c == '}' || c == ']') close |= at;
        if (c == 'N' || c == 'I' || c == 'i') odd |= at;
      }
    }
    maps.quote[i] = quote;
    maps.open[i] = open;
    maps.close[i] = close;
    maps.odd[i] = odd;
  }
  state.in_string = in_string ? ~std::uint64_t{0} : 0;
  state.escaped = escaped ? 1 : 0;
}

#if defined(__x86_64__)
bool HasAvx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("pclmul");
}
#endif

}  // namespace

std::vector<BlockMarker> AllMarkers() {
  std::vector<BlockMarker> markers = {&MarkPlain};
#if defined(__x86_64__)
  markers.push_back(&MarkSse2);
  if (HasAvx2()) markers.push_back(&MarkAvx2);
#endif
  return markers;
}

BlockMarker FastestMarker() {
  static const BlockMarker marker = AllMarkers().back();
  return marker;
}

}  // namespace attune::traces
