#pragma once
// The surroundings of a program's main().

namespace ds4::app {

// A descriptor that is closed at the start would be given to the first file opened, which then gets
// the answer, or is read as the prompt. To be called before anything is opened.
void fill_standard_descriptors();

}  // namespace ds4::app
