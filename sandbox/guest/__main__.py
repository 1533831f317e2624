from guest.main import main

main()
