# Nano in every recipe, for tests and first steps: nano/nano-RECIPE.gguf in the build folder. A test
# that reads them says add_dependencies(its_name nano_models).
set(DS4_NANO_FROM "" CACHE PATH "folder with these files from another build, linked to instead of converting again")
set(nano_dir ${PROJECT_SOURCE_DIR}/models/nano)
set(nano_files)
foreach(recipe exact mxfp4 q8_0 q4 q2)
  set(out ${PROJECT_BINARY_DIR}/nano/nano-${recipe}.gguf)
  if(DS4_NANO_FROM)
    add_custom_command(
      OUTPUT ${out}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/nano
      COMMAND ${CMAKE_COMMAND} -E create_symlink ${DS4_NANO_FROM}/nano-${recipe}.gguf ${out}
      DEPENDS ${DS4_NANO_FROM}/nano-${recipe}.gguf
      VERBATIM)
  else()
    add_custom_command(
      OUTPUT ${out}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/nano
      COMMAND ds4-quantize --hf ${nano_dir} --out ${out} --recipe ${recipe} --overwrite
      DEPENDS ds4-quantize ${nano_dir}/config.json ${nano_dir}/tokenizer.json
              ${nano_dir}/model-00001-of-00002.safetensors ${nano_dir}/model-00002-of-00002.safetensors
      COMMENT "converting models/nano to ${recipe}"
      VERBATIM)
  endif()
  list(APPEND nano_files ${out})
endforeach()
add_custom_target(nano_models DEPENDS ${nano_files})
