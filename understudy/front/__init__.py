"""What `import understudy` brings beside the functions of the packages beneath; nothing below imports it."""
