// A program outside of wepe's module that implements parts of it. go.work takes wepe, and the versions of all modules,
// from this checkout.
module example.com/outside

go 1.26.5

require github.com/wepe-go/wepe v0.0.0

replace github.com/wepe-go/wepe => ../../..
