def write(records):
    pass
