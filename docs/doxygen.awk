# What doxygen reads of a header, line by line what is there: the comment that begins it becomes
# the description of the file, and of the struct that it names where this has no other:
# `// Relu: y = max(x, 0).` is what is said of `struct Relu`.
FNR == 1 && /^\/\/ / {
  purpose = substr($0, 4)
  print "/// @purpose " purpose
  beginning = 1
  next
}
beginning && /^\/\// {
  purpose = purpose " " substr($0, 4)
  print "/" $0
  next
}
{
  beginning = 0
}
$1 == "struct" && index(purpose, $2 ": ") == 1 && previous !~ /^\/\/\// {
  print "/** " substr(purpose, length($2) + 3) " */ " $0
  next
}
{
  previous = $0
  print
}
