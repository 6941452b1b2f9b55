# What `cmake --install` puts where. DESTDIR and --prefix work as usual.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(DLQ_PC_LIBDIR "${CMAKE_INSTALL_LIBDIR}")
else()
  set(DLQ_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(DLQ_PC_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}")
else()
  set(DLQ_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(packaging/dlq.pc.in ${CMAKE_BINARY_DIR}/dlq.pc @ONLY)

# The unit names the binary by its full path.
file(READ packaging/dlq.service unit)
string(REPLACE "/usr/bin/dlq" "${CMAKE_INSTALL_FULL_BINDIR}/dlq" unit "${unit}")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/dlq.service CONTENT "${unit}" @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS packaging/dlq.service)

install(TARGETS dlq RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS libdlq_shared libdlq_static
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/dlq DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES ${CMAKE_BINARY_DIR}/dlq.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CMAKE_BINARY_DIR}/dlq.service DESTINATION lib/systemd/system)
file(GLOB man_pages CONFIGURE_DEPENDS packaging/man/*.1)
install(FILES ${man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES packaging/dlq.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME dlq)

# The pages and the completion are made by the binary from its table of commands and kept in the source.
add_custom_target(packaging
  COMMAND $<TARGET_FILE:dlq> completion bash > ${CMAKE_SOURCE_DIR}/packaging/dlq.bash
  COMMAND $<TARGET_FILE:dlq> completion man > ${CMAKE_SOURCE_DIR}/packaging/man/dlq.1
  COMMAND sh -c "for c in $($<TARGET_FILE:dlq> completion commands); do $<TARGET_FILE:dlq> completion man $c > packaging/man/dlq-$c.1; done"
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} VERBATIM)
