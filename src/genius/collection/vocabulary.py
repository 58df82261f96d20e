"""Words by which people name albums: everyday things, places and scenes, for collections without texts."""

from __future__ import annotations

_WORDS = """
dogs, puppies, cats, kittens, horses, cows, sheep, goats, pigs, elephants, giraffes, zebras, lions,
tigers, bears, pandas, monkeys, rabbits, squirrels, deer, foxes, wolves, birds, parrots, owls, eagles,
ducks, swans, geese, chickens, penguins, seagulls, flamingos, fish, aquariums, sharks, whales, dolphins,
turtles, frogs, snakes, lizards, insects, butterflies, bees, spiders, pets, farm animals, wild animals,
zoos

people, a person, portraits, selfies, faces, babies, children, a boy, a girl, a man, a woman, old
people, families, couples, friends, a crowd, a team, workers, cooks, doctors, musicians, dancers,
soldiers, police, students, teachers, brides, weddings, birthdays, parties, concerts, festivals,
parades, ceremonies, meetings, graduation, Christmas, Halloween, fireworks, picnics, camping, hiking,
holidays

beaches, the sea, waves, lakes, rivers, waterfalls, mountains, hills, forests, trees, deserts, fields,
meadows, flowers, roses, gardens, parks, leaves, autumn, snow, winter, ice, rain, storms, clouds, the
sky, sunsets, sunrise, the moon, stars, night, fog, rainbows, caves, cliffs, islands, rocks, sand,
grass, plants, cactus, mushrooms, fire

cities, streets, skylines, skyscrapers, buildings, houses, apartments, castles, churches, temples,
mosques, towers, bridges, statues, monuments, ruins, fountains, markets, shops, restaurants, cafes,
bars, hotels, offices, schools, libraries, museums, hospitals, factories, farms, barns, stadiums,
swimming pools, playgrounds, airports, harbours, train stations, parking lots, roads, highways, traffic,
traffic lights, stop signs, street signs, graffiti, villages, fences, doors, windows, stairs, roofs,
lighthouses, windmills, clocks, clock towers, benches, fire hydrants

kitchens, bathrooms, bedrooms, living rooms, dining rooms, beds, sofas, chairs, tables, desks, lamps,
shelves, mirrors, curtains, carpets, fireplaces, refrigerators, ovens, sinks, toilets, bathtubs, washing
machines, televisions, computers, laptops, keyboards, phones, cameras, screens, headphones, books,
newspapers, letters, maps, documents, receipts, screenshots, charts, diagrams, drawings, paintings,
cartoons, logos, icons, signs, handwriting, toys, teddy bears, dolls, games, puzzles, balloons, candles,
gifts, vases, bottles, boxes, tools, scissors, machines, musical instruments, guitars, pianos, drums

food, meals, breakfast, lunch, dinner, pizza, burgers, sandwiches, hot dogs, pasta, noodles, rice,
sushi, soup, salad, vegetables, carrots, broccoli, tomatoes, potatoes, fruit, apples, bananas, oranges,
berries, strawberries, lemons, bread, cake, cupcakes, cookies, doughnuts, desserts, ice cream,
chocolate, sweets, cheese, eggs, meat, steak, seafood, coffee, tea, milk, juice, wine, beer, cocktails,
water, plates, bowls, cups, cutlery, groceries, snacks

cars, sports cars, old cars, trucks, vans, buses, taxis, motorcycles, bicycles, scooters, trains, trams,
subways, aeroplanes, helicopters, boats, sailing boats, ships, canoes, tractors, fire engines,
ambulances, wheels, engines, rockets, carriages

sports, football, baseball, basketball, tennis, golf, rugby, hockey, volleyball, running, cycling,
swimming, surfing, skiing, snowboarding, skateboarding, skating, climbing, riding, boxing, martial arts,
yoga, gymnastics, frisbee, kites, fishing, sailing, diving, dancing, racing

clothes, shirts, T-shirts, dresses, skirts, trousers, jeans, shorts, jackets, coats, suits, ties,
sweaters, socks, shoes, sneakers, boots, sandals, high heels, hats, caps, scarves, gloves, bags,
handbags, backpacks, suitcases, umbrellas, glasses, sunglasses, watches, jewellery, necklaces, earrings,
rings, belts, wallets, swimwear, underwear, uniforms, costumes, masks, make-up, perfume, hair, tattoos

hands, feet, eyes, smiles, hearts, arrows, flags, numbers, letters of the alphabet, symbols, patterns,
textures, shadows, reflections, silhouettes, black and white photos, close-ups, aerial views, light
trails, abstract art
"""

VOCABULARY: tuple[str, ...] = tuple(dict.fromkeys(" ".join(_WORDS.replace("\n\n", ", ").split()).split(", ")))
"""Words and short phrases in lower case, but for names."""
