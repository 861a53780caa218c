#include "nsys.h"

namespace attune::traces {

Status ReadNsys(const std::string& path, const NsysOptions&, EventStore&) {
  return Fail(ErrorCode::kInvalidInput, path + ": Nsight Systems exports are not read yet");
}

}  // namespace attune::traces
