select 'Grφίe'
