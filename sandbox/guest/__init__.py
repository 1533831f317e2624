"""The program inside the container: serves files and commands to the host, over one connection.

It is a program of its own. The host never imports it, and it never imports the host; what both know is the
protocol (`guest.protocol` here, `codeagent.sandbox.channel` there), held together by a contract test.
Standard library only.
"""
