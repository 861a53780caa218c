#include <algorithm>

#include "attune/skill/skill.h"

namespace attune {

const CatalogLever* Catalog::Find(std::string_view lever) const {
  const auto it = std::find_if(levers.begin(), levers.end(),
                               [&](const CatalogLever& l) { return l.lever == lever; });
  return it == levers.end() ? nullptr : &*it;
}

std::vector<const CatalogLever*> Catalog::Answering(std::string_view diagnosis_class) const {
  std::vector<const CatalogLever*> out;
  for (const CatalogLever& lever : levers) {
    if (std::find(lever.helps.begin(), lever.helps.end(), diagnosis_class) != lever.helps.end()) {
      out.push_back(&lever);
    }
  }
  return out;
}

const Lesson* Skill::FindLesson(std::string_view id) const {
  const auto it =
      std::find_if(lessons.begin(), lessons.end(), [&](const Lesson& l) { return l.id == id; });
  return it == lessons.end() ? nullptr : &*it;
}

}  // namespace attune
