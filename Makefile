.PHONY: gen
gen:
	buf generate
