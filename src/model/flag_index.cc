#include "attune/model/flag_index.h"

namespace attune {

FlagIndex::FlagIndex(const Arguments& args) {
  std::size_t size = 16;
  while (size < 2 * args.items().size()) size *= 2;
  slots_.resize(size);
  for (const Argument& a : args.items()) {
    const std::uint64_t hash = FlagHash(a.flag);
    std::size_t at = hash & (size - 1);
    while (slots_[at].argument != nullptr &&
           (slots_[at].hash != hash || slots_[at].argument->flag != a.flag)) {
      at = (at + 1) & (size - 1);
    }
    slots_[at] = {hash, &a};
  }
}

const Argument* FlagIndex::Find(const FlagName& flag) const {
  std::size_t at = flag.hash & (slots_.size() - 1);
  for (; slots_[at].argument != nullptr; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at].hash == flag.hash && slots_[at].argument->flag == flag.text) {
      return slots_[at].argument;
    }
  }
  return nullptr;
}

}  // namespace attune
