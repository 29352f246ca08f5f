-- Returns the instance.
return instance()
